package app

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
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

// pacedListener accepts connections that pause for abandoned requests. Opening and resetting a stream of HTTP/2 costs the sender
// nothing, but it costs this server time that other callers need. A connection from a trusted proxy never pauses: it may carry the
// requests of many callers, who must not wait for one of them.
type pacedListener struct {
	net.Listener
	proxies []netip.Prefix
}

// Accept implements [net.Listener].
func (l pacedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	peer, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	if slices.ContainsFunc(l.proxies, func(network netip.Prefix) bool { return network.Contains(peer.Addr().Unmap()) }) {
		return conn, nil
	}
	return &pacedConn{Conn: conn}, nil
}

type pacedConn struct {
	net.Conn
	abandoned atomic.Int64 // requests, since the last pause

	debt  time.Duration // at since
	since time.Time
}

// Read implements [net.Conn].
func (c *pacedConn) Read(p []byte) (int, error) {
	if n := c.abandoned.Swap(0); n > 0 {
		now := time.Now()
		c.debt = max(0, c.debt-now.Sub(c.since)/forgiving) + time.Duration(n)*debtEach
		c.since = now
		<-time.After(min(c.debt, maxPause))
	}
	return c.Conn.Read(p)
}

// CloseWrite lets net/http close its side first, so that a caller that is refused while it sends can read the reason.
func (c *pacedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type pacedKey struct{}

// withConn lets [paced] find the connection of a request. It is a [http.Server.ConnContext].
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = secured.NetConn()
	}
	return context.WithValue(ctx, pacedKey{}, conn)
}

// paced counts abandoned requests.
func paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if conn, ok := r.Context().Value(pacedKey{}).(*pacedConn); ok && r.Context().Err() != nil {
				conn.abandoned.Add(1)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
