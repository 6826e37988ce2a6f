package mailcatcher

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strings"
	"time"
)

// Letter is one mail that was caught.
type Letter struct {
	Number  int // counts from 1 on
	At      time.Time
	To      []string
	From    string
	Subject string
	Text    string // of the part text/plain, with \n as the end of a line
	Code    string // six digits alone on a line of the text; empty when there are none
}

var codeLine = regexp.MustCompile(`(?m)^[0-9]{6}$`)

// read takes a message apart and keeps the first text that is plain.
func read(r io.Reader) (Letter, error) {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return Letter{}, err
	}
	text, err := plainText(message.Header, message.Body)
	if err != nil {
		return Letter{}, err
	}
	decoder := new(mime.WordDecoder)
	letter := Letter{Text: strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))}
	letter.Code = codeLine.FindString(letter.Text)
	for name, field := range map[string]*string{"From": &letter.From, "Subject": &letter.Subject} {
		if *field, err = decoder.DecodeHeader(message.Header.Get(name)); err != nil {
			*field = message.Header.Get(name)
		}
	}
	return letter, nil
}

type header interface{ Get(string) string }

var errNoText = errors.New("no part is plain text")

func plainText(h header, body io.Reader) (string, error) {
	mediaType, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		mediaType = "text/plain" // RFC 2045, section 5.2
	}
	switch {
	case mediaType == "text/plain":
		text, err := io.ReadAll(decoded(h.Get("Content-Transfer-Encoding"), body))
		return string(text), err
	case strings.HasPrefix(mediaType, "multipart/"):
		parts := multipart.NewReader(body, params["boundary"])
		for {
			part, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) {
				return "", errNoText
			}
			if err != nil {
				return "", err
			}
			text, err := plainText(part.Header, part)
			if !errors.Is(err, errNoText) {
				return text, err
			}
		}
	}
	return "", errNoText
}

func decoded(encoding string, body io.Reader) io.Reader {
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		return quotedprintable.NewReader(body)
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, body)
	}
	return body
}
