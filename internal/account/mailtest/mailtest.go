// Package mailtest is a real SMTP server for tests: what is sent to it can be read as a person would read it.
package mailtest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// patience is how long Next waits: a letter that does not come becomes a failure.
const patience = 20 * time.Second

// Config of a server. The zero value takes every letter, in plain.
type Config struct {
	TLS      *tls.Config // offers STARTTLS
	Implicit bool        // speaks TLS from the first byte, instead of STARTTLS
	Password string      // asks for a login, of whatever user
	Refuse   error       // what every recipient is refused with
}

// Server keeps letters until a test asks for them.
type Server struct {
	Address string // host:port on loopback

	config  Config
	letters chan Letter
}

// Letter is one mail as it arrived.
type Letter struct {
	From, To string // of the envelope
	Header   mail.Header
	Text     string // of the part text/plain
	HTML     string // of the part text/html
	TLS      bool   // came over TLS
}

// Code is the one-time code: six digits alone on a line of the text. It is empty when there is none.
func (l Letter) Code() string { return codeLine.FindString(l.Text) }

var codeLine = regexp.MustCompile(`(?m)^[0-9]{6}$`)

// Start runs a server until the test ends.
func Start(t testing.TB, config Config) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Address: listener.Addr().String(), config: config, letters: make(chan Letter, 1000)}
	server := smtp.NewServer(smtp.BackendFunc(func(conn *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, conn: conn}, nil
	}))
	server.Domain = "localhost"
	server.ErrorLog = nullLogger{}
	switch {
	case config.Implicit:
		listener = tls.NewListener(listener, config.TLS)
	default:
		server.TLSConfig = config.TLS
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return s
}

// Next waits for the next letter.
func (s *Server) Next(t testing.TB) Letter {
	t.Helper()
	select {
	case letter := <-s.letters:
		return letter
	case <-time.After(patience):
		t.Fatal("no letter came")
		return Letter{}
	}
}

// Waiting is how many letters have come and were not asked for.
func (s *Server) Waiting() int { return len(s.letters) }

// session is one connection.
type session struct {
	server   *Server
	conn     *smtp.Conn
	loggedIn bool
	letter   Letter
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, _, password string) error {
		if password != s.server.config.Password {
			return smtp.ErrAuthFailed
		}
		s.loggedIn = true
		return nil
	}), nil
}

func (s *session) Reset()        { s.letter = Letter{} }
func (s *session) Logout() error { return nil }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.config.Password != "" && !s.loggedIn {
		return smtp.ErrAuthRequired
	}
	_, encrypted := s.conn.TLSConnectionState()
	s.letter = Letter{From: from, TLS: encrypted || s.server.config.Implicit}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.letter.To = to
	return s.server.config.Refuse
}

func (s *session) Data(r io.Reader) error {
	if err := s.letter.read(r); err != nil {
		return fmt.Errorf("unreadable letter: %w", err)
	}
	s.server.letters <- s.letter
	return nil
}

// read takes a message of the form multipart/alternative apart.
func (l *Letter) read(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	l.Header = message.Header
	mediaType, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/alternative" {
		return errors.Join(err, errors.New("not multipart/alternative"))
	}
	parts := multipart.NewReader(message.Body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if _, err := text.ReadFrom(quotedprintable.NewReader(part)); err != nil {
			return err
		}
		plain := strings.ReplaceAll(text.String(), "\r\n", "\n")
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			l.HTML = plain
		} else {
			l.Text = plain
		}
	}
}

type nullLogger struct{}

func (nullLogger) Printf(string, ...any) {}
func (nullLogger) Println(...any)        {}
