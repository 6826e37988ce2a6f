package app

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Each abandoned request adds to the debt of its connection. The server pauses for the debt, up to a bound, before it reads from the
// connection again. Time reduces the debt: a caller that abandons a request now and then hardly notices, and one that keeps doing it
// waits longer and longer.
const (
	debtEach  = 20 * time.Millisecond
	maxPause  = 5 * time.Second
	forgiving = 20 // seconds forgive a second of debt
)

// pace pauses a connection for abandoned requests. Opening and resetting a stream of HTTP/2 costs the sender nothing, but it costs this
// server time that other callers need. A connection from a trusted proxy has no pace: it may carry the requests of many callers, who
// must not wait for one of them.
type pace struct {
	abandoned atomic.Int64 // requests, since the last pause

	debt  time.Duration // at since
	since time.Time
}

func (p *pace) pause() {
	if n := p.abandoned.Swap(0); n > 0 {
		now := time.Now()
		p.debt = max(0, p.debt-now.Sub(p.since)/forgiving) + time.Duration(n)*debtEach
		p.since = now
		<-time.After(min(p.debt, maxPause))
	}
}

func paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if c := connectionOf(r); c != nil && c.pace != nil && r.Context().Err() != nil {
				c.pace.abandoned.Add(1)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
