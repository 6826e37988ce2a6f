package account

import (
	"bytes"
	"crypto/rand"
	"embed"
	"errors"
	htmltemplate "html/template"
	"net/url"
	"strings"
	"text/template"
	"time"

	"github.com/wneessen/go-mail"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
)

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
	brand   brand.Brand // the sender's
	in      *locale.Locale
	sent    time.Time
	valid   time.Duration
	zone    *time.Location // of the account, or nil if unknown
}

// clock formats when the email was made, in the reader's time zone or, if that is unknown, in UTC, which it names then.
func (e codeEmail) clock() string {
	if e.zone == nil {
		return e.sent.UTC().Format("15:04 MST")
	}
	return e.sent.In(e.zone).Format("15:04")
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

func (e codeEmail) subject() string {
	if e.code == "" {
		return e.in.Text("mail.link_subject", "Brand", e.brand.Name)
	}
	return e.in.Text("mail.subject", "Code", e.code, "Brand", e.brand.Name)
}

// email returns the email in its language.
func (e codeEmail) email() (email, error) {
	link, err := url.Parse(e.link)
	if err != nil {
		return email{}, err
	}
	values := struct {
		*locale.Locale
		Subject, Partner, Code, Link, Host, Time, Valid string
		Brand                                           brand.Brand
	}{e.in, e.subject(), e.partner, e.code, e.link, link.Host, e.clock(), e.in.Span(e.valid), e.brand}
	var textPart, htmlPart strings.Builder
	err = errors.Join(plainPart.Execute(&textPart, values), richPart.Execute(&htmlPart, values))
	return email{e.to, values.Subject, textPart.String(), htmlPart.String(), e.in, e.brand}, err
}
