package listener

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"connect-svc/internal/foundation/work"
)

// wholeBody is how many bytes of a body are read before its request works. It is more than any body that a stranger may send
// (specification 8), so that only callers that a handler knows are waited for longer.
const wholeBody = 8<<10 + 1

type noPlaceKey struct{}

// WithoutPlace marks the context of a request that got no place.
func WithoutPlace(ctx context.Context) context.Context {
	return context.WithValue(ctx, noPlaceKey{}, true)
}

// GotNoPlace reports whether there was no place for a request (see [Config.Places]), or its body did not come in time. Its handler
// refuses it.
func GotNoPlace(r *http.Request) bool { return r.Context().Value(noPlaceKey{}) != nil }

// bound has requests work that are whole, as many as there are places for, and marks the others. A body has limits.Head to come, which is
// a rate of at least 1.6 KB a second for the largest one of a stranger. The rest of a longer one has limits.Request.
func (c *connections) bound(limits work.Limits, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := connectionOf(r)
		if b == nil {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		q := &waiter{of: b, stop: func() { _ = control.SetReadDeadline(time.Unix(1, 0)) }}
		body := &receivedBody{ReadCloser: r.Body}
		if r.ContentLength == 0 {
			body.ended = io.EOF
		}
		// net/http resets what is left of a stream of HTTP/2. In HTTP/1 it reads it.
		defer func() { c.end(q, body.ended != nil || r.ProtoMajor > 1) }()
		if body.ended == nil {
			_ = control.SetReadDeadline(time.Now().Add(limits.Head)) // before something may stop it
		}
		var received bytes.Buffer
		defer func() { received = bytes.Buffer{} }() // the timers of net/http keep the request for a while
		if c.begin(q, body.ended == nil, r.ProtoMajor > 1) && body.ended == nil {
			_, _ = io.CopyN(&received, body, wholeBody)
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(&received, body), body}
		}
		works, open := c.work(q, !errors.Is(body.ended, os.ErrDeadlineExceeded))
		if !open {
			panic(http.ErrAbortHandler)
		}
		switch {
		case !works:
			_ = control.SetWriteDeadline(time.Now().Add(limits.Head)) // a caller that does not read the refusal holds memory without a place
			r = r.WithContext(WithoutPlace(r.Context()))
		case r.ContentLength == 0: // there was no deadline
		case body.ended != nil:
			_ = control.SetReadDeadline(time.Time{}) // net/http takes a late deadline for a caller that has left
		default:
			_ = control.SetReadDeadline(time.Now().Add(limits.Request))
		}
		next.ServeHTTP(w, r)
	})
}

// receivedBody knows how it ended. net/http tells only one read that a body broke off, and the next that it is whole.
type receivedBody struct {
	io.ReadCloser
	ended error // nil: it may have more
}

// Read implements [io.Reader].
func (b *receivedBody) Read(p []byte) (n int, err error) {
	if b.ended == nil {
		n, b.ended = b.ReadCloser.Read(p)
	}
	return n, b.ended
}
