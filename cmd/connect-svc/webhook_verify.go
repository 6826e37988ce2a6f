package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"time"

	"connect.invalid/connect-go/webhook"
)

type webhookVerifyCommand struct {
	Secret   string  `required:"" placeholder:"SECRET" help:"The signing secret, whsec_…"`
	Headers  string  `required:"" placeholder:"FILE" help:"The headers as received, one per line: \"webhook-id: msg_…\"."`
	Body     string  `required:"" placeholder:"FILE" help:"The body as received, byte for byte."`
	Received instant `placeholder:"TIME" help:"When it was received, as RFC 3339. Receivers refuse a call that is more than 5 minutes off. Left out, the age is not checked."`
}

// verdictJSON has null where a call is not genuine or not an event.
type verdictJSON struct {
	Genuine   bool       `json:"genuine"`
	Reason    string     `json:"reason"` // why it is not, or why it is not an event
	WebhookID *string    `json:"webhook_id"`
	SignedAt  *time.Time `json:"signed_at"`
	Type      *string    `json:"type"`
}

func (c webhookVerifyCommand) Run(p *program, group *webhookCommands) error {
	header, err := readHeaders(c.Headers)
	if err != nil {
		return err
	}
	body, err := os.ReadFile(filepath.Clean(c.Body))
	if err != nil {
		return err
	}
	received := c.Received.Time
	if received.IsZero() {
		received, _ = webhook.SignedAt(header) // an error is reported by VerifyAt
	}
	_, err = webhook.VerifyAt(c.Secret, header, body, received)
	if errors.Is(err, webhook.ErrSecret) {
		return usagef("--secret: %w", err)
	}
	verdict := verdictJSON{Genuine: err == nil || errors.Is(err, webhook.ErrNotEvent)}
	if err != nil {
		verdict.Reason = err.Error()
	}
	if errors.Is(err, webhook.ErrSignature) {
		verdict.Reason += explain(c.Secret, header, body, received)
	}
	if !verdict.Genuine {
		failure := fmt.Errorf("not genuine: %s", verdict.Reason)
		if group.Output == "json" {
			return errors.Join(group.print(p, verdict, nil), failure)
		}
		return failure
	}
	id := header.Get("webhook-id")
	signed, _ := webhook.SignedAt(header) // VerifyAt read it, too
	signed = signed.UTC()
	verdict.WebhookID, verdict.SignedAt = &id, &signed
	if err == nil {
		verdict.Type = typeOf(body)
	}
	return group.print(p, verdict, func(w io.Writer) {
		fmt.Fprintln(w, "genuine\tyes")
		if verdict.Reason != "" {
			fmt.Fprintf(w, "note\t%s\n", verdict.Reason)
		}
		fmt.Fprintf(w, "webhook id\t%s\n", *verdict.WebhookID)
		fmt.Fprintf(w, "signed\t%s\n", verdict.SignedAt.Format(time.RFC3339))
		if verdict.Type != nil {
			fmt.Fprintf(w, "type\t%s\n", *verdict.Type)
		}
	})
}

// typeOf is the type of an event, which a receiver may not know.
func typeOf(event []byte) *string {
	var named struct{ Type string }
	_ = json.Unmarshal(event, &named) // it has been read as an event
	return &named.Type
}

// explain tries what receivers commonly do to a body before they verify it.
func explain(secret string, header http.Header, body []byte, received time.Time) string {
	matches := func(other []byte) bool {
		_, err := webhook.VerifyAt(secret, header, other, received)
		return !bytes.Equal(other, body) && (err == nil || errors.Is(err, webhook.ErrNotEvent))
	}
	if matches(bytes.TrimRight(body, "\r\n")) {
		return "; it would match without the line break at the end of the body, which was not sent"
	}
	var compact bytes.Buffer
	if json.Compact(&compact, body) == nil && matches(compact.Bytes()) {
		return "; it would match without the white space in the body, which was not sent: verify the bytes as received"
	}
	return ""
}

// readHeaders reads the headers of an HTTP message, with or without its request line.
func readHeaders(name string) (http.Header, error) {
	text, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	trimmed := strings.TrimSpace(string(text))
	if first, rest, _ := strings.Cut(trimmed, "\n"); strings.Contains(first, " HTTP/") {
		trimmed = rest
	}
	header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(trimmed + "\r\n\r\n"))).ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("%s: not headers, one per line: %w", name, err)
	}
	return http.Header(header), nil
}
