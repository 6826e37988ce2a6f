package app

import (
	"container/list"
	"context"
	"net"
	"net/http"
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
