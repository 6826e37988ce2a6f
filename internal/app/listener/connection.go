package listener

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type connection struct {
	net.Conn
	pace *pace // nil: of a trusted proxy

	of      *connections // nil: it does not count
	peers   *peers
	idle    waiter // waits while the connection has no request
	unread  bool   // see [Counts]
	running int    // requests
	streams bool   // they are streams of HTTP/2
	answers bool   // it has had a whole request since it was idle
	closed  bool
	gone    chan struct{} // closed with it
}

// Read implements [net.Conn].
func (c *connection) Read(p []byte) (int, error) {
	if c.pace != nil {
		c.pace.pause(c.gone)
	}
	return c.Conn.Read(p)
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	if c.of != nil {
		c.of.mu.Lock()
		if !c.closed {
			c.of.remove(c)
		}
		c.of.mu.Unlock()
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

// pause ends with the connection, whose requests would otherwise keep their memory.
func (p *pace) pause(gone <-chan struct{}) {
	if n := p.abandoned.Swap(0); n > 0 {
		now := time.Now()
		p.debt = max(0, p.debt-now.Sub(p.since)/forgiving) + time.Duration(n)*debtEach
		p.since = now
		select {
		case <-time.After(min(p.debt, maxPause)):
		case <-gone:
		}
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

// Certificate reads a listener's certificate with its chain, key and Leaf. It is called at the start and regularly afterwards, so that a
// renewed certificate is used without a restart.
type Certificate func() (*tls.Certificate, error)

// FixedCertificate returns a Certificate that is never renewed.
func FixedCertificate(pair *tls.Certificate) Certificate {
	return func() (*tls.Certificate, error) { return pair, nil }
}

// Presented is the certificate of a listener. It is the last one that was read and that callers can use.
type Presented struct {
	setting string // in the log
	host    string // to which callers connect; empty: unknown
	read    Certificate
	now     func() time.Time
	logger  *slog.Logger

	current atomic.Pointer[tls.Certificate]

	mu        sync.Mutex // guards the fields below
	complaint string     // about the last read; empty: none
	seen      int        // number of reads in a row with this complaint
}

// present reads the certificate of a listener for the first time.
func present(read Certificate, setting, host string, now func() time.Time, logger *slog.Logger) (*Presented, error) {
	p := &Presented{setting: setting, host: host, read: read, now: now, logger: logger}
	pair, err := read()
	if err != nil {
		return nil, fmt.Errorf("certificate (%s): %w", setting, err)
	}
	// The service starts even with a certificate that no caller can use, because a proxy in front of it may not check it.
	if problem := Problem(pair.Leaf, host, now()); problem != "" {
		logger.Warn("the certificate ("+setting+") cannot be used by callers", "problem", problem,
			"host", host, "from", pair.Leaf.NotBefore.UTC(), "to", pair.Leaf.NotAfter.UTC())
	}
	p.current.Store(pair)
	return p, nil
}

// Leaf returns the certificate that is presented now.
func (p *Presented) Leaf() *x509.Certificate { return p.current.Load().Leaf }

// Problem returns why no caller can connect now, or "".
func (p *Presented) Problem() string { return Problem(p.Leaf(), p.host, p.now()) }

// Problem returns why no caller of a host can connect with a certificate, or "". An empty host is unknown, and not compared.
func Problem(leaf *x509.Certificate, host string, now time.Time) string {
	var problems []string
	if now.After(leaf.NotAfter) {
		problems = append(problems, "has expired")
	}
	if now.Before(leaf.NotBefore) {
		problems = append(problems, "is not valid yet")
	}
	if host != "" && leaf.VerifyHostname(host) != nil {
		problems = append(problems, "is not for the host of the base URL")
	}
	return strings.Join(problems, ", ")
}

// Refresh reads the certificate again and presents it from now on. If the new certificate cannot be used but the old one can, Refresh
// keeps the old one and warns once. Unless insist is set, it warns at the second read only: certificate and key are two files, of
// which only one may have been replaced so far.
func (p *Presented) Refresh(insist bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, complaint := p.current.Load(), ""
	pair, err := p.read()
	switch {
	case err != nil:
		complaint = err.Error()
	case slices.EqualFunc(pair.Certificate, old.Certificate, slices.Equal[[]byte]):
		// unchanged
	case Problem(pair.Leaf, p.host, p.now()) != "" && p.Problem() == "":
		complaint = Problem(pair.Leaf, p.host, p.now())
	default:
		p.current.Store(pair)
		if pair.Leaf.NotAfter.Before(old.Leaf.NotAfter) {
			p.logger.Warn("the new certificate ("+p.setting+") ends sooner than the one before", "to", pair.Leaf.NotAfter.UTC(), "before", old.Leaf.NotAfter.UTC())
		}
		p.logger.Info("a new certificate ("+p.setting+") is in use", "from", pair.Leaf.NotBefore.UTC(), "to", pair.Leaf.NotAfter.UTC())
	}
	if complaint != p.complaint {
		p.complaint, p.seen = complaint, 0
	}
	p.seen++
	if insist {
		p.seen = 2
	}
	if complaint != "" && p.seen == 2 {
		p.logger.Warn("the new certificate ("+p.setting+") cannot be used; the old one is kept", "problem", complaint,
			"to", old.Leaf.NotAfter.UTC())
	}
}
