// Package mailcatcher is a mail server that delivers nothing: it keeps the emails that the service sends and shows them on a web page.
// The demo and the sandbox send their one-time codes there, and tests read them.
//
// It accepts emails for every recipient, keeps the newest hundred in memory and loses them when the process ends. The
// page reloads every few seconds, without JavaScript.
//
// It is stricter than the libraries for mail servers, which accept much that others refuse, such as addresses without angle brackets: the
// service is known to speak the protocol where it speaks to this server.
//
// # Invariants
//
//   - It refuses each form that RFC 5321 and the extensions in use do not have (TestStrict, TestStrictLogin).
//   - An email whose end is not certain is not accepted, and nothing that follows it is read (TestNothingIsSmuggled).
package mailcatcher

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/mail"
	"regexp"
	"slices"
	"strings"
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
			c.serve(client, logger)
		})
	}
}

// Email is a caught email.
type Email struct {
	Number  int // counts from 1 on
	At      time.Time
	From    string   // of the envelope
	To      []string // of the envelope
	TLS     bool     // arrived over TLS
	Header  mail.Header
	Subject string // decoded
	Text    string // the part text/plain, with \n at the end of each line
	HTML    string // the part text/html
	Code    string // the one-time code: six digits alone on a line of Text, or empty
}

var codeLine = regexp.MustCompile(`(?m)^[0-9]{6}$`)

// parse parses an email in the form that the service sends: multipart/alternative with a part text/plain, inside a multipart/related if
// there is a logo.
func parse(r io.Reader) (Email, error) {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return Email{}, err
	}
	email := Email{Header: message.Header}
	if email.Subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		return Email{}, fmt.Errorf("subject: %w", err)
	}
	if err := email.read(message.Header.Get("Content-Type"), message.Body); err != nil {
		return Email{}, err
	}
	if email.Text == "" {
		return Email{}, errors.New("no part is text/plain")
	}
	email.Code = codeLine.FindString(email.Text)
	return email, nil
}

// read reads the texts of a part, or of its own parts.
func (e *Email) read(contentType string, body io.Reader) error {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("content type: %w", err)
	}
	if strings.HasPrefix(mediaType, "multipart/") {
		parts := multipart.NewReader(body, params["boundary"])
		for {
			part, err := parts.NextPart() // decodes quoted-printable
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := e.read(part.Header.Get("Content-Type"), part); err != nil {
				return err
			}
		}
	}
	content, err := io.ReadAll(body)
	text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
	switch mediaType {
	case "text/plain":
		e.Text = text
	case "text/html":
		e.HTML = text
	}
	return err
}

//go:embed page.html style.css
var files embed.FS

var pageTemplate = template.Must(template.ParseFS(files, "page.html"))

// Handler serves the page that shows the emails, only at `/`.
func (c *Catcher) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		_ = pageTemplate.Execute(w, c.Emails()) // fails only if the browser has gone
	})
	mux.Handle("GET /style.css", http.FileServerFS(files))
	return mux
}
