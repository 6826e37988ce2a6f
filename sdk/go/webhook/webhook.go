// Package webhook verifies the calls that the service makes to your webhook URL, and reads the events in them. The events
// embed the generated types of package connectsdk.
//
// The signatures are those of Standard Webhooks 1.0 (https://www.standardwebhooks.com), checked by its own library. The
// contract, api/openapi.yaml, says how to handle an event: respond at once and process it later, process each webhook-id
// once, and ignore an event whose connection version is below the one that you hold.
package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Tolerance is how far the time of a call may differ from yours, in both directions.
const Tolerance = 5 * time.Minute

// Why a call is refused. ErrSecret is a mistake on your side, and a call with ErrNotEvent is genuine. All others mean that
// the sender is unknown.
var (
	ErrSecret    = errors.New("the signing secret is not whsec_ and base64 of 24 bytes or more")
	ErrHeaders   = errors.New("the call has no usable webhook headers")
	ErrTooOld    = errors.New("the call was signed more than 5 minutes ago")
	ErrTooNew    = errors.New("the call was signed more than 5 minutes in the future")
	ErrSignature = errors.New("no signature of the call matches")
	ErrNotEvent  = errors.New("the call is genuine, but its body is no event")
)

// Verify checks that the service made a call, now, and reads its event. The body must be the bytes as received, not a
// re-encoding. While your secret is rotated each call is signed with both secrets: the one that you have is enough.
func Verify(secret string, header http.Header, body []byte) (Event, error) {
	return VerifyAt(secret, header, body, time.Now())
}

// VerifyAt is Verify for a call that was received at another time, such as one that waited in your queue.
func VerifyAt(secret string, header http.Header, body []byte, received time.Time) (Event, error) {
	key, err := signingKey(secret)
	if err != nil {
		return nil, err
	}
	id, signed, err := readHeaders(header)
	if err != nil {
		return nil, err
	}
	switch age := received.Sub(signed); {
	case age > Tolerance:
		return nil, fmt.Errorf("%w: %s", ErrTooOld, age.Round(time.Second))
	case age < -Tolerance:
		return nil, fmt.Errorf("%w: %s", ErrTooNew, -age.Round(time.Second))
	}
	if err := key.VerifyIgnoringTimestamp(body, header); err != nil {
		return nil, ErrSignature
	}
	return Parse(id, body)
}

// SignedAt is the time that a call states as its signing time. Nothing is verified.
func SignedAt(header http.Header) (time.Time, error) {
	_, signed, err := readHeaders(header)
	return signed, err
}

// signingKey refuses secrets that anybody could guess, above all an empty one.
func signingKey(secret string) (*standardwebhooks.Webhook, error) {
	encoded, found := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || len(key) < 24 {
		return nil, ErrSecret
	}
	return standardwebhooks.NewWebhookRaw(key)
}

func readHeaders(header http.Header) (id string, signed time.Time, err error) {
	var missing []string
	for _, name := range []string{
		standardwebhooks.HeaderWebhookID, standardwebhooks.HeaderWebhookTimestamp, standardwebhooks.HeaderWebhookSignature,
	} {
		if header.Get(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return "", signed, fmt.Errorf("%w: %s missing", ErrHeaders, strings.Join(missing, ", "))
	}
	seconds, err := strconv.ParseInt(header.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return "", signed, fmt.Errorf("%w: %s is not a number of seconds", ErrHeaders, standardwebhooks.HeaderWebhookTimestamp)
	}
	return header.Get(standardwebhooks.HeaderWebhookID), time.Unix(seconds, 0), nil
}
