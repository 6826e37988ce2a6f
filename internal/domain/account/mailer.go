package account

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// Mailer sends emails through one SMTP server. It is safe for concurrent use.
type Mailer struct {
	client   *mail.Client
	from     string // with the name
	address  string // without it
	security string
	utf8     utf8Answer
}

// NewMailer parses the mail server's URL (CONNECT_SMTP_URL) and the sender (CONNECT_MAIL_FROM). It does not connect.
//
//   - smtp://host:port requires STARTTLS; for a server on this machine it is optional;
//   - smtp://user:password@host:port requires STARTTLS everywhere, because it sends a password;
//   - smtp://host:port?tls=off sends in clear;
//   - smtps://host:port and smtps://user:password@host:port use implicit TLS.
//
// Certificates are always verified. The errors say what was wrong and what is accepted. They never contain the URL, which can hold a
// password.
func NewMailer(smtpURL, address string) (*Mailer, error) {
	server, err := url.Parse(smtpURL)
	if err != nil {
		return nil, fmt.Errorf("not a URL: %w", errSMTPURL)
	}
	port, err := strconv.ParseUint(server.Port(), 10, 16)
	password, hasPassword := server.User.Password()
	inClear := server.RawQuery == "tls=off"
	wrong := ""
	switch {
	case server.Scheme != "smtp" && server.Scheme != "smtps":
		wrong = "the scheme is neither smtp nor smtps"
	case server.Hostname() == "":
		wrong = "no host"
	case err != nil || port == 0:
		wrong = "no port from 1 to 65535"
	case strings.Trim(server.Path, "/") != "" || server.RawQuery != "" && !inClear || server.Fragment != "":
		wrong = "something follows the port"
	case inClear && (server.Scheme == "smtps" || server.User != nil):
		wrong = "a password, or smtps, needs TLS"
	case server.User != nil && (!hasPassword || password == "" || server.User.Username() == ""):
		wrong = "user and password only come together"
	}
	if wrong != "" {
		return nil, fmt.Errorf("%s: %w", wrong, errSMTPURL)
	}
	sender, err := netmail.ParseAddress(address)
	if err != nil || !text.IsAddress(sender.Address) {
		return nil, errMailFrom
	}
	if sent := text.SentAddress(sender.Address); sent != sender.Address {
		sender.Address = sent
		address = sender.String()
	}

	m := &Mailer{from: address, address: sender.Address, security: "TLS is verified"}
	isLoopback := network.IsLoopback(server.Hostname())
	switch {
	case isLoopback:
		m.security = "stays on this machine"
	case inClear:
		m.security = "TLS is not verified (tls=off)"
	}
	encryption := mail.WithTLSPolicy(mail.TLSMandatory)
	switch {
	case inClear:
		encryption = mail.WithTLSPolicy(mail.NoTLS)
	case server.Scheme == "smtps":
		encryption = mail.WithSSL()
	case isLoopback && server.User == nil:
		encryption = mail.WithTLSPolicy(mail.TLSOpportunistic)
	}
	hostname, _ := os.Hostname()
	options := []mail.Option{mail.WithPort(int(port)), mail.WithHELO(greeting(hostname, sender.Address)), encryption}
	if server.User != nil {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(server.User.Username()), mail.WithPassword(password))
	}
	host := strings.TrimSuffix(server.Host, ":"+server.Port()) // with the brackets of an IPv6 address, which the library lacks
	if m.client, err = mail.NewClient(host, options...); err != nil {
		return nil, fmt.Errorf("%w: %w", errSMTPURL, err)
	}
	return m, nil
}

// Errors of NewMailer. They tell which of the two settings is wrong.
var (
	errSMTPURL  = errors.New("want smtp://host:port, or smtps://user:password@host:port")
	errMailFrom = errors.New("want an address such as connect@example.com or Example <connect@example.com>")
)

// Security describes in a few words how codes are protected on the way to the mail server.
func (m *Mailer) Security() string { return m.security }

// Server is the mail server's host:port.
func (m *Mailer) Server() string { return m.client.ServerAddr() }

// Check opens a session with the mail server like [Mailer.send], with greeting, encryption and login, and ends it after a NOOP. It returns
// whether the mail server offers SMTPUTF8, without which it takes no address whose local part is not ASCII.
func (m *Mailer) Check(ctx context.Context) (offersUTF8 bool, err error) {
	offered, ended := false, make(chan error, 1)
	go func() { // the library looks at ctx until it is connected, and then waits for answers for 15 s
		ended <- work.Try(func() (err error) { offered, err = m.check(ctx); return err })
	}()
	select {
	case err = <-ended:
		return offered, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (m *Mailer) check(ctx context.Context) (offersUTF8 bool, err error) {
	session, err := m.client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return false, err
	}
	defer session.Close() //nolint:errcheck // it has answered
	offersUTF8, _ = session.Extension("SMTPUTF8")
	if err := session.Noop(); err != nil {
		return offersUTF8, err
	}
	return offersUTF8, session.Quit()
}

// stepError names the command of the session that failed. Its text may contain the recipient's address.
type stepError struct {
	command string
	err     error
}

func (e *stepError) Error() string { return e.command + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// send hands one email to the mail server. It calls accepted when the mail server has accepted the sender, and continues unless that fails.
// Up to then it does the same with and without an account. Without a recipient it does the rest of the work, too, but transmits nothing.
// answer is what the mail server said when it took the email.
func (m *Mailer) send(ctx context.Context, email email, accepted func() error) (answer string, err error) {
	message, err := m.compose(email)
	if err != nil {
		return "", err
	}
	sender, err := message.GetSender(false)
	if err != nil {
		return "", err
	}
	recipient, refusal := "", error(nil)
	if email.to != "" {
		recipient, refusal = address(message, email.to)
	}
	session, err := m.client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return "", err
	}
	defer func() {
		_ = session.Quit() // the outcome is known by now
		_ = session.Close()
	}()
	session.SkipSMTPUTF8(isASCII(sender + recipient)) // who asks for it has the email sent back where it is not offered
	if err := session.Mail(sender); err != nil {
		return "", &stepError{"MAIL FROM", err}
	}
	if err := accepted(); err != nil {
		return "", err
	}
	if email.to == "" {
		if _, err := message.WriteTo(io.Discard); err != nil {
			return "", err
		}
		return "", session.Reset()
	}
	if offered, _ := session.Extension("SMTPUTF8"); refusal == nil && !offered && !isASCII(recipient) {
		refusal = &textproto.Error{Code: 553, Msg: "5.6.7"} // RFC 6531, section 3.5
	}
	if refusal != nil {
		return "", &stepError{"RCPT TO", refusal}
	}
	if err := session.Rcpt(recipient); err != nil {
		return "", &stepError{"RCPT TO", err}
	}
	body, err := session.Data()
	if err == nil {
		_, err = message.WriteTo(body)
	}
	if err == nil {
		err = body.Close()
	}
	if err != nil {
		return "", &stepError{"DATA", err}
	}
	if taken, known := body.(*smtp.DataCloser); known {
		answer = taken.ServerResponse()
	}
	return answer, nil
}

// address makes an address the recipient of a message, with the domain in A-labels. It returns the path for the envelope, in angle brackets
// (RFC 5321, section 4.1.2), or the refusal that a mail server would give.
func address(message *mail.Msg, to string) (path string, refusal error) {
	if err := message.To(text.SentAddress(to)); err != nil {
		return "", &textproto.Error{Code: 553, Msg: "5.1.3"}
	}
	paths, err := message.GetRecipients()
	if err != nil {
		return "", err
	}
	return paths[0], nil
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c > unicode.MaxASCII })
}

var fullName = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9-]*[A-Za-z0-9]$`)

// greeting is the name for EHLO. Mail servers refuse one without a dot or with an underscore, as many machines and containers have it.
func greeting(hostname, sender string) string {
	for _, name := range []string{hostname, sender[strings.LastIndexByte(sender, '@')+1:]} {
		if fullName.MatchString(name) {
			return name
		}
	}
	return "[127.0.0.1]" // RFC 5321, section 4.1.4
}

//go:embed templates
var templates embed.FS

// The two parts of the email. They are parsed once for all languages, because the values contain the texts.
var (
	plainPart = template.Must(template.ParseFS(templates, "templates/code.txt"))
	richPart  = htmltemplate.Must(htmltemplate.ParseFS(templates, "templates/code.html", "templates/frame.html"))
)

// email is what the mail server is given.
type email struct {
	to         string // the recipient; if empty, nothing is sent
	subject    string
	text, html string // the two parts
	in         *locale.Locale
	brand      brand.Brand // the sender's
}

// codeEmail is the content of an email with a one-time code.
type codeEmail struct {
	to      string // empty if the address has no account: no email is sent
	code    string // empty if only the link works
	link    string
	partner string      // name of the partner of the authorization request; empty for the account pages
	browser string      // that asked, in words, or empty if unknown
	brand   brand.Brand // the sender's
	in      *locale.Locale
	sent    time.Time
	valid   time.Duration
	zone    *time.Location // of the account, or nil if unknown
}

// compose returns the email without a recipient. Its errors contain no address.
func (m *Mailer) compose(email email) (*mail.Msg, error) {
	message := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if message.From(m.from) != nil || message.To(m.from) != nil { // the recipient is set later, if there is one
		return nil, errors.New("the sender is not a valid address")
	}
	message.Subject(email.subject)
	message.SetDate()
	message.SetMessageIDWithValue(rand.Text() + m.address[strings.LastIndexByte(m.address, '@'):])
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: suppresses absence notes
	message.SetGenHeader("Content-Language", email.in.Tag)
	message.SetBodyString(mail.TypeTextPlain, email.text)
	message.AddAlternativeString(mail.TypeTextHTML, email.html)
	if picture := email.brand.InMail(); picture.Name != "" {
		// Embedded: fetching a picture would reveal to us when the email is read.
		if err := message.EmbedReader("logo", bytes.NewReader(picture.Content),
			mail.WithFileContentType(mail.ContentType(picture.MediaType())), mail.WithFileContentID("<logo>")); err != nil {
			return nil, errors.New("the logo cannot be embedded")
		}
	}
	return message, nil
}

// email returns the email in its language.
func (e codeEmail) email() (email, error) {
	link, err := url.Parse(e.link)
	if err != nil {
		return email{}, err
	}
	subject := e.in.Text("mail.subject", "Code", e.code, "Brand", e.brand.Name)
	if e.code == "" {
		subject = e.in.Text("mail.link_subject", "Brand", e.brand.Name)
	}
	sent, zone := e.in.Time(e.sent.UTC())+" (UTC)", time.UTC // names UTC, because the reader's time zone is unknown
	if e.zone != nil {
		sent, zone = e.in.Time(e.sent.In(e.zone)), e.zone
	}
	values := struct {
		*locale.Locale
		Subject, Partner, Code, Link, Act, Host, Time, Valid string
		Asked                                                []Fact // who reads the code to somebody else has not asked for it
		Brand                                                brand.Brand
	}{e.in, subject, e.partner, e.code, e.link, e.in.Text("link.sign_in"), link.Host, sent, e.in.Span(e.valid), []Fact{
		{e.in.Text("receipt.browser"), browserIn(e.in, e.browser)},
		{e.in.Text("receipt.when"), e.in.Moment(e.sent.In(zone)) + " (" + zone.String() + ")"},
	}, e.brand}
	var textPart, htmlPart strings.Builder
	err = errors.Join(plainPart.Execute(&textPart, values), richPart.Execute(&htmlPart, values))
	return email{e.to, subject, textPart.String(), htmlPart.String(), e.in, e.brand}, err
}

// The two parts of a letter.
var (
	plainLetter = template.Must(template.ParseFS(templates, "templates/letter.txt"))
	richLetter  = htmltemplate.Must(htmltemplate.ParseFS(templates, "templates/letter.html", "templates/frame.html"))
)

// Letter is the content of an email without a code, in plain text and in one language.
type Letter struct {
	To      string // the address
	In      *locale.Locale
	Subject string
	Says    string // the first paragraph
	Facts   []Fact
	Link    string // of the page where the recipient can act
	Act     string // the words of a button that leads there, or empty for none
	Why     string // the paragraph before the link
	Closing string // the last paragraph
}

// Fact is a line of a letter, such as "Browser: Firefox (Linux)".
type Fact struct{ Name, Value string }

// email returns the email in its language.
func (l Letter) email(design brand.Brand) (email, error) {
	values := struct {
		*locale.Locale
		Letter
		Brand brand.Brand
	}{l.In, l, design}
	var text, html strings.Builder
	err := errors.Join(plainLetter.Execute(&text, values), richLetter.Execute(&html, values))
	return email{l.To, l.Subject, text.String(), html.String(), l.In, design}, err
}

// Samples are the kinds of emails to users, by the names that [SampleEmail] takes, and what they are.
var Samples = []struct{ Name, Says string }{
	{"email", "Email of a connection"},
	{"email-account", "Email of the account"},
	{"email-link", "Email without a code"},
	{"email-" + connectionBegun, "Receipt of a connection"},
	{"email-" + connectionEnded, "Receipt of an end"},
	{"email-" + newBrowser, "Receipt of a sign-in"},
}

// SampleEmail returns an email with made-up contents, as a preview. The address of a logo is cid:logo.
func SampleEmail(design brand.Brand, host, name string, language *locale.Locale) (text, html string, err error) {
	const browser = "Firefox (Linux)"
	at, page := time.Date(2026, 5, 18, 15, 4, 0, 0, time.UTC), "https://"+host+"/account"
	code := codeEmail{
		code: "012345", link: page + "/link/" + strings.Repeat("a", 43), partner: "Stride Club", browser: browser, brand: design, in: language, sent: at,
		valid: CodeLifetime, zone: time.UTC,
	}
	told := receipt{
		Notice: Notice{Kind: strings.TrimPrefix(name, "email-"), PutAt: at}, receiptData: receiptData{By: "partner", Browser: browser},
		in: language, link: "https://" + host + ReceiptPath + "svcl_" + strings.Repeat("a", 150),
		of: Connected{Partner: code.partner, Scopes: scope.All, HistoryFrom: at, AuthorizedAt: at, Browser: browser},
	}
	switch name {
	case "email-account":
		code.partner = ""
	case "email-link":
		code.code = ""
	case "email-" + connectionEnded:
		told.link = page
	}
	var sample email
	if slices.Contains(ReceiptKinds, told.Kind) {
		sample, err = told.letter().email(design)
	} else {
		sample, err = code.email()
	}
	return sample.text, sample.html, err
}
