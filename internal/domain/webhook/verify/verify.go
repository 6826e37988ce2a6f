// Package verify says whether a call that a partner received came from the service, and why not, as a receiver that is built on
// the Go SDK sees it. It asks nobody: the signing secret and the bytes are enough.
package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"connect.invalid/connect-go/webhook"
)

// Verdict has null in JSON where a call is not genuine or not an event.
type Verdict struct {
	Genuine   bool       `json:"genuine"`
	Reason    string     `json:"reason"` // why it is not, or why it is not an event
	WebhookID *string    `json:"webhook_id"`
	SignedAt  *time.Time `json:"signed_at"`
	Type      *string    `json:"type"`
}

// Call judges a call that came at a time, which is zero if its age does not count. Error: [webhook.ErrSecret].
func Call(secret string, header http.Header, body []byte, received time.Time) (verdict Verdict, err error) {
	if received.IsZero() {
		received, _ = webhook.SignedAt(header) // an error is reported by VerifyAt
	}
	_, err = webhook.VerifyAt(secret, header, body, received)
	if errors.Is(err, webhook.ErrSecret) {
		return verdict, err
	}
	verdict.Genuine = err == nil || errors.Is(err, webhook.ErrNotEvent)
	if err != nil {
		verdict.Reason = err.Error()
	}
	if errors.Is(err, webhook.ErrSignature) {
		verdict.Reason += explain(secret, header, body, received)
	}
	if !verdict.Genuine {
		return verdict, nil
	}
	signed, _ := webhook.SignedAt(header) // VerifyAt read it, too
	verdict.WebhookID, verdict.SignedAt = new(header.Get("webhook-id")), new(signed.UTC())
	if err == nil {
		var event struct{ Type string }  // the receiver may not know the type
		_ = json.Unmarshal(body, &event) // VerifyAt read it, too
		verdict.Type = &event.Type
	}
	return verdict, nil
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

// Headers reads the headers of an HTTP message, with or without its request line.
func Headers(text []byte) (http.Header, error) {
	trimmed := strings.TrimSpace(string(text))
	if first, rest, _ := strings.Cut(trimmed, "\n"); strings.Contains(first, " HTTP/") {
		trimmed = rest
	}
	header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(trimmed + "\r\n\r\n"))).ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("not headers, one per line: %w", err)
	}
	return http.Header(header), nil
}
