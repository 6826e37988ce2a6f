package mailcatcher

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

const (
	maxEmails    = 100
	maxEmailSize = 1 << 20 // bytes
	smtpTimeout  = 30 * time.Second
)

// Config of the server. The zero value accepts every email, without TLS.
type Config struct {
	TLS         *tls.Config // offers STARTTLS
	ImplicitTLS bool        // speaks TLS from the first byte, instead of STARTTLS
	Password    string      // required of every sender, with any user name
	Refuse      error       // the response to every recipient
	OnEmail     func(Email) // called for each email, in the goroutine that received it
}

// Catcher keeps emails. The zero value is empty and ready to use.
type Catcher struct {
	Config

	mu     sync.Mutex
	emails []Email // newest first
	number int
}

// Emails returns the caught emails, newest first.
func (c *Catcher) Emails() []Email {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.emails)
}

func (c *Catcher) add(email Email) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	email.Number = c.number
	c.emails = append([]Email{email}, c.emails[:min(len(c.emails), maxEmails-1)]...)
}

// ServeSMTP accepts emails on the listener until ctx ends, and then closes it.
func (c *Catcher) ServeSMTP(ctx context.Context, listener net.Listener, logger *slog.Logger) error {
	server := smtp.NewServer(smtp.BackendFunc(func(conn *smtp.Conn) (smtp.Session, error) {
		return &session{catcher: c, conn: conn}, nil
	}))
	server.Domain = "localhost"
	server.MaxMessageBytes = maxEmailSize
	server.MaxRecipients = 10
	server.ReadTimeout, server.WriteTimeout = smtpTimeout, smtpTimeout
	server.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	if c.ImplicitTLS {
		listener = tls.NewListener(listener, c.TLS)
	} else {
		server.TLSConfig = c.TLS
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, smtp.ErrServerClosed) && ctx.Err() == nil {
		return err
	}
	return nil
}

type session struct {
	catcher  *Catcher
	conn     *smtp.Conn
	loggedIn bool
	from     string
	to       []string
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, _, password string) error {
		if password != s.catcher.Password {
			return smtp.ErrAuthFailed
		}
		s.loggedIn = true
		return nil
	}), nil
}

func (s *session) Reset()        { s.from, s.to = "", nil }
func (s *session) Logout() error { return nil }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.catcher.Password != "" && !s.loggedIn {
		return smtp.ErrAuthRequired
	}
	s.from, s.to = from, nil
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return s.catcher.Refuse
}

func (s *session) Data(r io.Reader) error {
	email, err := parse(r)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "cannot parse this email: " + err.Error()}
	}
	email.From, email.To, email.At = s.from, s.to, time.Now()
	_, email.TLS = s.conn.TLSConnectionState()
	s.catcher.add(email)
	if s.catcher.OnEmail != nil {
		s.catcher.OnEmail(email)
	}
	return nil
}
