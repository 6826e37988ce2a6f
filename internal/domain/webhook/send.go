package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/gen/partnerapi"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// maxResponse bounds the part of a response's body that is read, in bytes.
const maxResponse = 8 << 10

// sender sends the requests.
type sender struct {
	timeout time.Duration // of a request with its response
	dialer  *net.Dialer
	client  *http.Client
}

func newSender(allowed []netip.Prefix, roots *x509.CertPool, timeout time.Duration) *sender {
	dialer := &net.Dialer{Timeout: timeout, Control: guard(allowed).Safe}
	return &sender{timeout, dialer, &http.Client{
		// A redirect is returned like any other response, and counts as a failure.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{ // without a proxy
			DialContext:     dialer.DialContext,
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			// HTTP/1.1 only: a request that runs out of time closes its connection, and no other request shares it.
			TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
			DisableCompression:     true, // the log has the response as it came
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConns:           256,
			MaxIdleConnsPerHost:    64,               // the most parallel events that a registration can have
			IdleConnTimeout:        30 * time.Second, // the address was checked when the connection was dialed
		},
	}}
}

// cloudAddresses are formally public, but lead to the platform of the cloud that the machine runs in (Azure's wire server).
var cloudAddresses = netip.MustParsePrefix("168.63.129.16/32")

// guard refuses addresses that are neither public nor allowed. It checks each connection, after DNS.
func guard(allowed []netip.Prefix) *ssrf.Guardian {
	var v4, v6 []netip.Prefix
	for _, prefix := range allowed {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(cloudAddresses),
		ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
}

// send sends an event to an endpoint, in five seconds at most. The outcome is an Attempt, even if the receiver fails; retryAfter
// is the delay that a Retry-After header asks for, 0 without one. It returns an error only if the body or the signature could not
// be made.
func (w *Webhooks) send(ctx context.Context, event Event, target target) (attempt Attempt, retryAfter time.Duration, err error) {
	body, err := event.Body()
	if err != nil {
		return Attempt{}, 0, err
	}
	signature, err := w.sign(event.MessageID(), target.now, body, target.secret, target.previousSecret)
	if err != nil {
		return Attempt{}, 0, err
	}
	header := http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {"connect-svc-webhooks/1"},
		"Webhook-Id":        {event.MessageID()},
		"Webhook-Timestamp": {strconv.FormatInt(target.now.Unix(), 10)},
		"Webhook-Signature": {signature},
		// The empty header is not sent. It makes net/http retry on a new connection if the receiver closed the idle one.
		"Idempotency-Key": {},
	}
	ctx, end := w.trace(ctx, "sendWebhook")
	sender := w.sender
	if target.ClientID == Operator {
		sender = w.own
	}
	attempt, retryAfter = sender.post(ctx, target.URL, header, body)
	end(!attempt.Success())
	attempt.At = target.now
	return attempt, retryAfter, nil
}

// SendSample sends a made-up event, of a type that the client or the operator gets, to the receiver, signed like a real one, and returns the outcome. The
// sample is not in the log, is not sent again, and concerns no connection. A stopped endpoint gets it, too. The audit log has it, also if the
// receiver cannot be reached. Errors: ErrNoEndpoint, ErrEventType, refusal.ErrClientOffboarded, refusal.OverBudget.
func (w *Webhooks) SendSample(ctx context.Context, clientID uuid.UUID, eventType string) (Attempt, error) {
	target, err := w.target(ctx, clientID)
	if target.ClientStatus == "offboarded" {
		err = ofClient(clientID, refusal.ErrClientOffboarded)
	}
	if err != nil {
		return Attempt{}, err
	}
	sample := Event{
		ID: uuid.New(), ClientID: clientID, AboutClientID: uuid.New(), Type: eventType, GrantID: uuid.New(), ConnectionVersion: 1, CreatedAt: target.now,
		userID: uuid.New(),
	}
	if forOperator := eventType == ConnectionAuthorized || eventType == ConnectionEnded; forOperator != (clientID == Operator) {
		return Attempt{}, ErrEventType
	}
	switch eventType {
	case ConnectionRevoked, ConnectionEnded:
		sample.Reason = string(partnerapi.ConnectionRevokedDataReasonUserDisconnected)
	case ConnectionAuthorized:
		sample.Datasets = scope.DailySteps
	case ActivityUpdated:
		sample.Datasets = scope.DailySteps
		sample.LastDate = target.now.UTC().Truncate(24 * time.Hour)
		sample.FirstDate = sample.LastDate.AddDate(0, 0, -1)
	default:
		return Attempt{}, ErrEventType
	}
	err = w.act(ctx, clientID, "webhook.tested", func(queries *webhookdb.Queries) (int64, error) {
		return queries.AuditSample(ctx, webhookdb.AuditSampleParams{ClientID: clientID, Actor: work.Actor(ctx), Type: eventType})
	})
	if err != nil {
		return Attempt{}, ofClient(clientID, err)
	}
	attempt, _, err := w.send(ctx, sample, target)
	return attempt, cmp.Or(err, ctx.Err())
}

func (s *sender) post(ctx context.Context, url string, header http.Header, body []byte) (attempt Attempt, retryAfter time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	began := time.Now()
	defer func() { attempt.Duration = time.Since(began).Truncate(time.Millisecond) }()

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Attempt{Fault: "the URL cannot be used"}, 0
	}
	request.Header = header
	response, err := s.client.Do(request)
	if err != nil {
		return Attempt{Fault: faultOf(err)}, 0
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 100 { // net/http takes any three digits
		return Attempt{Fault: faultOf(nil)}, 0
	}
	attempt.Status = response.StatusCode
	if attempt.Response, err = io.ReadAll(io.LimitReader(response.Body, maxResponse)); err == nil {
		err = ctx.Err() // the response may have ended because we closed the connection
	}
	if err != nil {
		attempt.Fault = faultOf(err)
	} else if response.StatusCode/100 == 3 {
		attempt.Fault = "redirects are not followed"
	}
	return attempt, retryAfterOf(response.Header.Get("Retry-After"), began)
}

// faultOf describes in fixed words why there is no response. The error itself can hold the URL.
func faultOf(err error) string {
	var (
		name        *net.DNSError
		certificate *tls.CertificateVerificationError
		alert       tls.AlertError
		noTLS       tls.RecordHeaderError
		operation   *net.OpError
		timeout     net.Error
	)
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return "the address is not allowed"
	case errors.Is(err, context.Canceled):
		return "broken off"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no complete response within 5 seconds"
	case errors.As(err, &name):
		return "the name cannot be resolved"
	case errors.As(err, &certificate):
		return "the certificate is not valid"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &alert), errors.As(err, &noTLS),
		errors.As(err, &operation) && operation.Op == "remote error":
		return "TLS failed"
	case errors.As(err, &operation) && operation.Op == "dial":
		return "cannot connect"
	case errors.As(err, &operation), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection broke"
	default:
		return "no valid response"
	}
}

// retryAfterOf parses a Retry-After header, seconds or a date (RFC 9110, section 10.2.3), up to a day. It returns 0 for a malformed
// one.
func retryAfterOf(text string, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest number
		return time.Duration(min(seconds, uint64(most/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return min(max(date.Sub(now), 0), most)
	}
	return 0
}

// secretPrefix begins a signing secret (Standard Webhooks 1.0).
const secretPrefix = "whsec_"

// newSecret makes a signing secret of 256 random bits, and its sealed form, which is stored.
func (w *Webhooks) newSecret() (secret, sealed string, err error) {
	var key [32]byte
	if _, err := io.ReadFull(w.random, key[:]); err != nil {
		return "", "", err
	}
	sealed, err = w.keys.Seal(credential.WebhookSecret, key[:])
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:]), sealed, err
}

var errNoSecret = errors.New("the signing secret cannot be opened with this keyset")

// sign returns the value of webhook-signature: a signature of the first sealed secret, and one of each other that can be opened.
func (w *Webhooks) sign(messageID string, at time.Time, body []byte, sealed ...string) (string, error) {
	var signatures []string
	for _, secret := range sealed {
		key, err := w.keys.Open(credential.WebhookSecret, secret)
		if err != nil && len(signatures) > 0 {
			continue // no former secret, or one that only the former keyset opens
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", errNoSecret, err)
		}
		signer, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return "", err
		}
		signature, err := signer.Sign(messageID, at, body)
		if err != nil {
			return "", err
		}
		signatures = append(signatures, signature)
	}
	return strings.Join(signatures, " "), nil
}
