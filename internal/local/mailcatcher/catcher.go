package mailcatcher

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	maxEmails    = 100
	maxEmailSize = 1 << 20 // bytes
	maxTo        = 100     // recipients of an email
	smtpTimeout  = 30 * time.Second
)

// Config of the server. The zero value accepts every email that keeps to the standard, without TLS.
type Config struct {
	TLS         *tls.Config // offers STARTTLS
	ImplicitTLS bool        // speaks TLS from the first byte, instead of STARTTLS
	Password    string      // required of every sender, with any user name, over TLS
	Login       bool        // offers AUTH LOGIN instead of AUTH PLAIN
	UTF8        bool        // offers SMTPUTF8
	Without     []string    // extensions that are not offered: 8BITMIME, PIPELINING, SIZE
	MaxSize     int         // of an email in bytes, a MiB if zero
	Bare        bool        // accepts addresses without angle brackets. until 1.3.0: 1.0.0 sends them, and a test upgrades from it
	OnEmail     func(Email) // called for each email, in the goroutine that received it

	// Reply is called for each command that the server understands, with its line, and with "." for an email that it would take. If it
	// returns a reply, the server gives that one, and does nothing else. Lines of a reply end with \n. The reply 421 ends the session.
	Reply func(command string) string
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

// ServeSMTP accepts emails on the listener until ctx ends, and then closes it. It logs what it refuses, without addresses.
func (c *Catcher) ServeSMTP(ctx context.Context, listener net.Listener, logger *slog.Logger) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		sessions.Go(func() {
			leave := context.AfterFunc(ctx, func() { _ = client.Close() })
			defer leave()
			newSession(c, client, logger).serve()
		})
	}
}
