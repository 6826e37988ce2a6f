package listener

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

type connection struct {
	net.Conn
	pace *pace // nil: of a trusted proxy

	of      *connections // nil: it does not count
	peers   *peers
	idle    *list.Element // in peers; nil: it has a request
	since   uint64        // the turn in which it became idle
	unread  bool          // see connectionCounts
	running int           // requests
	closed  bool
}

// Read implements [net.Conn].
func (c *connection) Read(p []byte) (int, error) {
	if c.pace != nil {
		c.pace.pause()
	}
	return c.Conn.Read(p)
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	if c.of != nil {
		c.of.leave(c)
	}
	return c.Conn.Close()
}

// CloseWrite lets net/http close its side first, so that a caller that is refused while it sends can read the reason.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// underTLS returns the connection that net/http has accepted; nil: it is not one of a listener.
func underTLS(conn net.Conn) *connection {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

type connectionKey struct{}

// withConnection lets [connectionOf] find the connection of a request. It is a [http.Server.ConnContext].
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, underTLS(conn))
}

// connectionOf returns the connection of a request; nil: unknown.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

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
