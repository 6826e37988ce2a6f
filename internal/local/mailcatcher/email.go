package mailcatcher

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"strings"
	"time"
)

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
