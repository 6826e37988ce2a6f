package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"connect-svc/internal/mailbox"
	"connect-svc/internal/network"
)

// Mailer sends one-time codes through one SMTP server. It is safe for concurrent use.
type Mailer struct {
	client   *mail.Client
	from     string // with the name
	domain   string
	security string
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
func NewMailer(smtpURL, from string) (*Mailer, error) {
	server, err := parseSMTPURL(smtpURL)
	if err != nil {
		return nil, err
	}
	client, err := mail.NewClient(server.host, server.options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSMTPURL, err)
	}
	sender, err := netmail.ParseAddress(from)
	if err != nil || !mailbox.Valid(sender.Address) {
		return nil, ErrMailFrom
	}
	domain := sender.Address[strings.LastIndexByte(sender.Address, '@')+1:]
	return &Mailer{client: client, from: from, domain: domain, security: server.security}, nil
}

// Errors of NewMailer. They tell which of the two settings is wrong.
var (
	ErrSMTPURL  = errors.New("want smtp://host:port, or smtps://user:password@host:port")
	ErrMailFrom = errors.New("want an address such as connect@example.com or Example <connect@example.com>")
)

// mailServer is a parsed URL.
type mailServer struct {
	host     string
	options  []mail.Option
	security string
}

func parseSMTPURL(text string) (server mailServer, err error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return server, fmt.Errorf("not a URL: %w", ErrSMTPURL)
	}
	port, err := strconv.ParseUint(parsed.Port(), 10, 16)
	password, hasPassword := parsed.User.Password()
	inClear := parsed.RawQuery == "tls=off"
	switch {
	case parsed.Scheme != "smtp" && parsed.Scheme != "smtps":
		return server, fmt.Errorf("the scheme is neither smtp nor smtps: %w", ErrSMTPURL)
	case parsed.Hostname() == "":
		return server, fmt.Errorf("no host: %w", ErrSMTPURL)
	case err != nil || port == 0:
		return server, fmt.Errorf("no port from 1 to 65535: %w", ErrSMTPURL)
	case strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" && !inClear || parsed.Fragment != "":
		return server, fmt.Errorf("something follows the port: %w", ErrSMTPURL)
	case inClear && (parsed.Scheme == "smtps" || parsed.User != nil):
		return server, fmt.Errorf("a password, or smtps, needs TLS: %w", ErrSMTPURL)
	case parsed.User != nil && (!hasPassword || password == "" || parsed.User.Username() == ""):
		return server, fmt.Errorf("user and password only come together: %w", ErrSMTPURL)
	}

	isLoopback := network.IsLoopback(parsed.Hostname())
	encryption := mail.WithTLSPolicy(mail.TLSMandatory)
	switch {
	case inClear:
		encryption = mail.WithTLSPolicy(mail.NoTLS)
	case parsed.Scheme == "smtps":
		encryption = mail.WithSSL()
	case isLoopback && parsed.User == nil:
		encryption = mail.WithTLSPolicy(mail.TLSOpportunistic)
	}
	server = mailServer{parsed.Hostname(), []mail.Option{mail.WithPort(int(port)), encryption}, "TLS is verified"}
	switch {
	case isLoopback:
		server.security = "stays on this machine"
	case inClear:
		server.security = "TLS is not verified (tls=off)"
	}
	if parsed.User != nil {
		server.options = append(server.options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover),
			mail.WithUsername(parsed.User.Username()), mail.WithPassword(password))
	}
	return server, nil
}

// Security describes in a few words how codes are protected on the way to the mail server.
func (m *Mailer) Security() string { return m.security }

// Check opens a session with the mail server like [Mailer.send], with greeting, encryption and login, and ends it.
func (m *Mailer) Check(ctx context.Context) error {
	session, err := m.client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return err
	}
	defer session.Close() //nolint:errcheck // it has answered
	return session.Quit()
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
func (m *Mailer) send(ctx context.Context, email codeEmail, accepted func() error) error {
	message, err := m.compose(email)
	if err != nil {
		return err
	}
	from, err := message.GetSender(false)
	if err != nil {
		return err
	}
	session, err := m.client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_ = session.Quit() // the outcome is known by now
		_ = session.Close()
	}()
	if err := session.Mail(from); err != nil {
		return &stepError{"MAIL FROM", err}
	}
	if err := accepted(); err != nil {
		return err
	}
	if email.to == "" {
		if _, err := message.WriteTo(io.Discard); err != nil {
			return err
		}
		return session.Reset()
	}
	if err := message.To(email.to); err != nil { // a mail server would refuse it, too
		return &stepError{"RCPT TO", &textproto.Error{Code: 553, Msg: "5.1.3"}}
	}
	to, err := message.GetRecipients()
	if err != nil {
		return err
	}
	if err := session.Rcpt(to[0]); err != nil {
		return &stepError{"RCPT TO", err}
	}
	body, err := session.Data()
	if err != nil {
		return &stepError{"DATA", err}
	}
	if _, err := message.WriteTo(body); err != nil {
		return &stepError{"DATA", err}
	}
	if err := body.Close(); err != nil {
		return &stepError{"DATA", err}
	}
	return nil
}
