// Package mailtest runs the mail catcher for a test, which reads the emails that the service sends.
package mailtest

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"connect-svc/internal/local/mailcatcher"
	"connect-svc/internal/testing/wait"
)

// Config is the zero value for a server that accepts every email that keeps to the standard, without TLS.
type Config = mailcatcher.Config

// Saying is for [Config].Reply: the server has this reply to each command of a kind, such as RCPT, or to an email if it is a dot.
func Saying(verb, reply string) func(command string) string {
	return func(command string) string {
		if command == verb || strings.HasPrefix(command, verb+" ") {
			return reply
		}
		return ""
	}
}

// Server is a mail server on loopback. It keeps emails until the test asks for them.
type Server struct {
	Address string // host:port

	emails  chan mailcatcher.Email
	notices chan mailcatcher.Email
}

// Start runs a server until the test ends.
func Start(t testing.TB, config Config) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Address: listener.Addr().String(), emails: make(chan mailcatcher.Email, 1000), notices: make(chan mailcatcher.Email, 1000)}
	config.OnEmail = func(email mailcatcher.Email) {
		if email.Code != "" || strings.Contains(email.Text, "/link/") {
			s.emails <- email
		} else {
			s.notices <- email
		}
	}
	catcher := &mailcatcher.Catcher{Config: config}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = catcher.ServeSMTP(ctx, listener, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return s
}

// Next waits for the next email with a code or its link.
func (s *Server) Next(t testing.TB) mailcatcher.Email {
	t.Helper()
	return wait.For(t, "an email arrives", s.emails)
}

// Waiting is how many emails have arrived and were not read with Next.
func (s *Server) Waiting() int { return len(s.emails) }

// NextNotice waits for the next email that is about no code.
func (s *Server) NextNotice(t testing.TB) mailcatcher.Email {
	t.Helper()
	return wait.For(t, "an email without a code arrives", s.notices)
}

// NoticesWaiting is how many have arrived and were not read with NextNotice.
func (s *Server) NoticesWaiting() int { return len(s.notices) }
