package app

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// How long the server pauses before it reads on from a connection, for each request that was given up on it before it was
// answered, and at most.
const (
	pauseEach = 10 * time.Millisecond
	pauseMost = time.Second
)

// pacedListener accepts connections that wait a little for what they have cost in vain. A stream of HTTP/2 that is opened
// and reset costs its sender nothing, and this server the time of all others.
type pacedListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l pacedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &pacedConn{Conn: conn}, nil
}

type pacedConn struct {
	net.Conn
	givenUp atomic.Int64 // requests, since the last pause
}

// Read implements [net.Conn].
func (c *pacedConn) Read(p []byte) (int, error) {
	if n := c.givenUp.Swap(0); n > 0 {
		<-time.After(min(time.Duration(n)*pauseEach, pauseMost))
	}
	return c.Conn.Read(p)
}

// CloseWrite is what net/http looks for to end its side first, so that a caller who is refused while it still sends can
// read why.
func (c *pacedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type pacedKey struct{}

// withConn lets [paced] find the connection of a request. It is for http.Server.ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = secured.NetConn()
	}
	return context.WithValue(ctx, pacedKey{}, conn)
}

// paced counts the requests that are given up.
func paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if conn, ok := r.Context().Value(pacedKey{}).(*pacedConn); ok && r.Context().Err() != nil {
				conn.givenUp.Add(1)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
