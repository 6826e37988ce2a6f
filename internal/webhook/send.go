package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"code.dny.dev/ssrf"
)

const (
	// sendTimeout is for all of a try: name, connection, request, answer.
	sendTimeout = 5 * time.Second
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 8 << 10
	// idleTimeout ends a connection that nobody used. It was checked when it was made.
	idleTimeout = 30 * time.Second
	// maxIdle is how many connections are kept.
	maxIdle = 256

	contentType = "application/json"
	userAgent   = "connect-svc-webhooks/1"
)

// sender makes the calls.
type sender struct {
	dialer *net.Dialer
	client *http.Client
}

func newSender(allowed []netip.Prefix, roots *x509.CertPool) *sender {
	dialer := &net.Dialer{Timeout: sendTimeout, Control: guard(allowed).Safe}
	return &sender{dialer, &http.Client{
		// A redirect is an answer that is no success.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{ // without a proxy
			DialContext:     dialer.DialContext,
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			// HTTP/1.1 alone: a call that runs out of time ends its connection, and with it nobody else's call.
			TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
			DisableCompression:     true, // an answer is kept as it came
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    share,
			IdleConnTimeout:        idleTimeout,
		},
	}}
}

// guard refuses addresses that are not public unless they are allowed, at each connection, after DNS.
func guard(allowed []netip.Prefix) *ssrf.Guardian {
	var v4, v6 []netip.Prefix
	for _, prefix := range allowed {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
}

// send delivers an event to an endpoint, in five seconds at most. Whatever the receiver does, the result is a Try; its
// retryAfter is what a Retry-After asks for, 0 where there is none. An error is our own: the body or the signature could
// not be made.
func (w *Webhooks) send(ctx context.Context, event Event, target target) (try Try, retryAfter time.Duration, err error) {
	body, err := event.Body()
	if err != nil {
		return Try{}, 0, err
	}
	timestamp := target.now.Unix()
	signature, err := w.sign(event.MessageID(), timestamp, body, target.secret, target.previousSecret)
	if err != nil {
		return Try{}, 0, err
	}
	header := http.Header{
		"Content-Type":      {contentType},
		"User-Agent":        {userAgent},
		"Webhook-Id":        {event.MessageID()},
		"Webhook-Timestamp": {strconv.FormatInt(timestamp, 10)},
		"Webhook-Signature": {signature},
		// Never sent, since it is empty: a kept connection that the receiver closed meanwhile is replaced by a new one.
		"Idempotency-Key": {},
	}
	try, retryAfter = w.sender.post(ctx, target.URL, header, body)
	try.At = target.now
	return try, retryAfter, nil
}

func (s *sender) post(ctx context.Context, url string, header http.Header, body []byte) (try Try, retryAfter time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	began := time.Now()
	defer func() { try.Duration = time.Since(began).Truncate(time.Millisecond) }()

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Try{Fault: "the URL cannot be used"}, 0
	}
	request.Header = header
	answer, err := s.client.Do(request)
	if err != nil {
		return Try{Fault: faultOf(err)}, 0
	}
	defer func() { _ = answer.Body.Close() }()
	try.Status = answer.StatusCode
	if try.Answer, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer)); err == nil {
		err = ctx.Err() // a receiver may end its answer because we end the connection
	}
	if err != nil {
		try.Fault = faultOf(err)
	} else if answer.StatusCode/100 == 3 {
		try.Fault = "redirects are not followed"
	}
	return try, retryAfterOf(answer.Header.Get("Retry-After"), began)
}

// faultOf says in a few fixed words why there is no answer. The error itself can hold the URL.
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
		return "no complete answer within 5 seconds"
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
		return "no valid answer"
	}
}

// retryAfterOf reads a Retry-After, seconds or a date (RFC 9110, section 10.2.3). What cannot be read is 0.
func retryAfterOf(text string, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(most/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return min(max(date.Sub(now), 0), most)
	}
	return 0
}
