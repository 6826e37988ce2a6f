package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
)

// mostRepeats is how often net/http may send a refresh once more, after an attempt of which it knows that nobody processed it: the last comes
// after some 15 s. Its own bound is higher, and its error then does not say that nobody processed the request.
const mostRepeats = 5

// departure watches one request, and knows whether it has never left. That takes more than the absence of a sign: a client that does not
// tell of its connections by the hooks of net/http/httptrace is believed only when it could not dial.
type departure struct {
	repeats bool // the client is net/http's own, which takes the body anew for one purpose: to repeat what nobody has processed

	mu        sync.Mutex
	told      bool // the client calls the hooks
	connected bool // it has a connection, verified, so that its goroutine may write at any time from now on
	wrote     bool
	answered  bool
	repeated  int
}

func (d *departure) watch(ctx context.Context) context.Context {
	note := func(change func()) {
		d.mu.Lock()
		defer d.mu.Unlock()
		change()
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { note(func() { d.told, d.connected = true, false }) },
		GotConn:              func(httptrace.GotConnInfo) { note(func() { d.connected = true }) },
		WroteHeaders:         func() { note(func() { d.wrote = true }) },
		GotFirstResponseByte: func() { note(func() { d.answered = true }) },
	})
}

// edit has the request tell when net/http repeats it: after HTTP/2's REFUSED_STREAM, a GOAWAY whose last stream is before it, or a write to
// an idle connection of which nothing came out.
func (d *departure) edit(_ context.Context, r *http.Request) error {
	again := r.GetBody
	if !d.repeats || again == nil {
		return nil
	}
	r.GetBody = func() (io.ReadCloser, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.connected, d.wrote = false, false
		if d.repeated++; d.repeated > mostRepeats {
			return nil, errors.New("the service takes no request on any connection")
		}
		return again()
	}
	return nil
}

// never reports whether the request certainly did not leave, or was certainly not processed. err is what the client returned for it.
func (d *departure) never(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	dial := (*net.OpError)(nil)
	switch {
	case d.answered:
		return false
	case !d.told:
		return errors.As(err, &dial) && dial.Op == "dial"
	case d.connected:
		// HTTP/2's GOAWAY with an error, before the first request of a connection. net/http has no other sign of it than these words: it
		// does not say them of a request that the service may have processed.
		return strings.Contains(err.Error(), "http2: Transport received GOAWAY from server ErrCode:")
	default:
		return !d.wrote
	}
}
