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

// Email is one email that was caught.
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

// parse reads an email of the form that the service sends: multipart/alternative with a part text/plain.
func parse(r io.Reader) (Email, error) {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return Email{}, err
	}
	email := Email{Header: message.Header}
	if email.Subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		return Email{}, fmt.Errorf("subject: %w", err)
	}
	mediaType, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/alternative" {
		return Email{}, errors.New("the content type is not multipart/alternative")
	}
	parts := multipart.NewReader(message.Body, params["boundary"])
	for {
		part, err := parts.NextPart() // decodes quoted-printable
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Email{}, err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return Email{}, err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
		if partType, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); partType == "text/html" {
			email.HTML = text
		} else {
			email.Text = text
		}
	}
	if email.Text == "" {
		return Email{}, errors.New("no part is text/plain")
	}
	email.Code = codeLine.FindString(email.Text)
	return email, nil
}
