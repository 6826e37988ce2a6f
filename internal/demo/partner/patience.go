package partner

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	mostTries = 4
	firstWait = 500 * time.Millisecond
)

// patience is a transport that asks again where the service says that this helps (specification 7.4): after a 429 when
// its time has come, after a 5xx or a failed network with growing waits and jitter. It does so for GET alone: what
// sends a code or a refresh token must not be sent twice.
type patience struct {
	next http.RoundTripper // nil is the default one

	mu    sync.Mutex
	until time.Time // no request of any worker before this: what Retry-After asks of the whole backend
}

// RoundTrip does as http.RoundTripper says. It waits no longer than the request's context.
func (p *patience) RoundTrip(r *http.Request) (*http.Response, error) {
	next := p.next
	if next == nil {
		next = http.DefaultTransport
	}
	if r.Method != http.MethodGet {
		return next.RoundTrip(r)
	}
	for try := 1; ; try++ {
		p.mu.Lock()
		until := p.until
		p.mu.Unlock()
		if err := wait(r.Context(), time.Until(until)); err != nil {
			return nil, err
		}
		answer, err := next.RoundTrip(r)
		if try == mostTries || err == nil && answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode < 500 {
			return answer, err
		}
		backoff := firstWait << try
		backoff = backoff/2 + rand.N(backoff/2)
		if err == nil {
			if answer.StatusCode == http.StatusTooManyRequests {
				backoff = 0
				p.holdBack(answer.Header.Get("Retry-After"))
			}
			_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection is used again
			_ = answer.Body.Close()
		}
		if err := wait(r.Context(), backoff); err != nil {
			return nil, err
		}
	}
}

// holdBack keeps all requests back for the seconds that a 429 asks for.
func (p *patience) holdBack(retryAfter string) {
	seconds, err := strconv.Atoi(retryAfter)
	if err != nil || seconds < 1 {
		seconds = 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(time.Duration(seconds) * time.Second); until.After(p.until) {
		p.until = until
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
