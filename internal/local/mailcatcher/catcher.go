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
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
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
	TLS         *tls.Config      // offers STARTTLS
	ImplicitTLS bool             // speaks TLS from the first byte, instead of STARTTLS
	Password    string           // required of every sender, with any user name, over TLS
	Login       bool             // offers AUTH LOGIN instead of AUTH PLAIN
	UTF8        bool             // offers SMTPUTF8
	Without     []string         // extensions that are not offered: 8BITMIME, PIPELINING, SIZE
	MaxSize     int              // of an email in bytes, a MiB if zero
	Bare        bool             // accepts addresses without angle brackets. until 1.3.0: 1.0.0 sends them, and a test upgrades from it
	Now         func() time.Time // when emails arrive; nil: time.Now
	OnEmail     func(Email)      // called for each email, in the goroutine that received it

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
	HTML    string // the part text/html, with its pictures as data: URLs
	Code    string // the one-time code: six digits alone on a line of Text, or empty

	pictures map[string]string // data: URLs by content id
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
	if err := email.read(textproto.MIMEHeader(message.Header), message.Body); err != nil {
		return Email{}, err
	}
	if email.Text == "" {
		return Email{}, errors.New("no part is text/plain")
	}
	for id, picture := range email.pictures {
		email.HTML = strings.ReplaceAll(email.HTML, `"cid:`+id+`"`, `"`+picture+`"`)
	}
	email.Code = codeLine.FindString(email.Text)
	return email, nil
}

// read reads the texts and pictures of a part, or of its own parts.
func (e *Email) read(header textproto.MIMEHeader, body io.Reader) error {
	mediaType, params, err := mime.ParseMediaType(header.Get("Content-Type"))
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
			if err := e.read(part.Header, part); err != nil {
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
	case "image/png", "image/svg+xml": // in base64, as the service sends them
		if e.pictures == nil {
			e.pictures = map[string]string{}
		}
		e.pictures[strings.Trim(header.Get("Content-ID"), "<>")] = "data:" + mediaType + ";base64," + strings.ReplaceAll(text, "\n", "")
	}
	return err
}

//go:embed page.html style.css
var files embed.FS

var pageTemplate = template.Must(template.ParseFS(files, "page.html"))

// Handler serves the page that shows the emails, at `/`, and what a mail program shows of each, at `/{number}`.
func (c *Catcher) Handler() http.Handler {
	mux := http.NewServeMux()
	headers := func(w http.ResponseWriter, policy string) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; img-src data:; "+policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		headers(w, "style-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'")
		_ = pageTemplate.Execute(w, c.Emails()) // fails only if the browser has gone
	})
	mux.HandleFunc("GET /{number}", func(w http.ResponseWriter, r *http.Request) {
		all := c.Emails()
		i := slices.IndexFunc(all, func(e Email) bool { return strconv.Itoa(e.Number) == r.PathValue("number") })
		if i < 0 {
			http.NotFound(w, r)
			return
		}
		headers(w, "style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox allow-popups allow-popups-to-escape-sandbox")
		_, _ = io.WriteString(w, strings.Replace(all[i].HTML, "<head>", `<head><base target="_blank">`, 1)) // links leave the frame
	})
	mux.Handle("GET /style.css", http.FileServerFS(files))
	return mux
}
