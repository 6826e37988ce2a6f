package mailcatcher

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

const (
	kept        = 100
	largest     = 1 << 20 // bytes of one letter
	smtpTimeout = 30 * time.Second
)

// Catcher keeps letters. The zero value has none.
type Catcher struct {
	mu      sync.Mutex
	letters []Letter // newest first
	number  int
}

// Letters are those that were caught, newest first.
func (c *Catcher) Letters() []Letter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.letters)
}

func (c *Catcher) add(l Letter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	l.Number = c.number
	c.letters = append([]Letter{l}, c.letters[:min(len(c.letters), kept-1)]...)
}

// ServeSMTP takes letters on the listener until ctx ends, and then closes it.
func (c *Catcher) ServeSMTP(ctx context.Context, listener net.Listener, logger *slog.Logger) error {
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{catcher: c}, nil
	}))
	server.Domain = "localhost"
	server.MaxMessageBytes = largest
	server.MaxRecipients = 10
	server.ReadTimeout, server.WriteTimeout = smtpTimeout, smtpTimeout
	server.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, smtp.ErrServerClosed) && ctx.Err() == nil {
		return err
	}
	return nil
}

// session is one connection of a sender.
type session struct {
	catcher *Catcher
	to      []string
}

func (s *session) Reset()                               { s.to = nil }
func (s *session) Logout() error                        { return nil }
func (s *session) Mail(string, *smtp.MailOptions) error { s.to = nil; return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	letter, err := read(r)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "not a letter that can be read"}
	}
	letter.To, letter.At = s.to, time.Now()
	s.catcher.add(letter)
	return nil
}

// Handler serves the page with the letters, at `/` alone.
func (c *Catcher) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.page)
	mux.Handle("GET /style.css", http.FileServerFS(files))
	return mux
}
