package listener

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/testing/wiretest"
)

// HTTP/2 has the same time limits as HTTP/1: a connection that never says anything, that never asks for anything, or that has nothing
// more to ask for is closed. That of a caller who has gone is closed, too.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	for name, test := range map[string]struct {
		protocol string // empty: not even a handshake
		speak    func(*testing.T, *tls.Conn)
		want     time.Duration
	}{
		"silent":                   {"", nil, work.DefaultLimits.Head},
		"HTTP/1 without a request": {"http/1.1", func(*testing.T, *tls.Conn) {}, work.DefaultLimits.Head},
		"HTTP/1 after an answer":   {"http/1.1", func(t *testing.T, conn *tls.Conn) { wiretest.Keep1(conn).Ask(t, "/") }, idleTimeout},
		"HTTP/2 without a preface": {"h2", func(*testing.T, *tls.Conn) {}, 10 * time.Second},
		"HTTP/2 without a request": {"h2", func(t *testing.T, conn *tls.Conn) { answering(wiretest.Keep2(t, conn)) }, idleTimeout + time.Second},
		"HTTP/2 after an answer":   {"h2", func(t *testing.T, conn *tls.Conn) { two := wiretest.Keep2(t, conn); two.Ask(t, "/", 1); answering(two) }, idleTimeout + time.Second},
		"HTTP/2 of one who is gone": {"h2", func(t *testing.T, conn *tls.Conn) {
			wiretest.Keep2(t, conn)
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}, pingAfter + 15*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, dial := openPipes(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), pair, now)
				began := time.Now()
				here := dial()
				synctest.Wait() // it is counted
				if test.protocol != "" {
					conn := tls.Client(here, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{test.protocol}})
					if err := conn.Handshake(); err != nil {
						t.Fatal(err)
					}
					test.speak(t, conn)
				}
				for s.Counts().Open > 0 {
					<-time.After(100 * time.Millisecond)
				}
				if took := time.Since(began).Truncate(time.Second); took != test.want {
					t.Errorf("closed after %v, want %v", took, test.want)
				}
				_ = here.Close()
				s.Drain(t.Context())
			})
		})
	}
}

// openPipes runs a server with TLS to which dial connects.
func openPipes(t *testing.T, handler http.Handler, pair *tls.Certificate, now time.Time) (s *Server, dial func() net.Conn) {
	t.Helper()
	listener := &pipeListener{dialled: make(chan net.Conn)}
	listener.closed, listener.close = context.WithCancel(t.Context())
	s, err := Open(t.Context(), Config{
		Name: "test", Listener: listener, Places: 9, Limits: work.DefaultLimits, Logger: telemetry.NewLogger(io.Discard, nil),
		Certificate: FixedCertificate(pair), Now: func() time.Time { return now }, Handler: handler,
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := s.Run(); err != nil {
			t.Error(err)
		}
	}()
	return s, func() net.Conn {
		near, far := net.Pipe()
		here, there := buffered(near), buffered(far)
		listener.dialled <- &knock{Conn: there, from: "192.0.2.1"}
		return here
	}
}

// A caller of HTTP/2 may send no more than MaxUnread that nobody has read, on all streams of a connection.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	const maxUnread = 64 << 10
	now := time.Now()
	s, err := Open(t.Context(), Config{
		Name: "test", Address: "127.0.0.1:0", Places: 9, Limits: wait.Patient, MaxUnread: maxUnread, Logger: telemetry.NewLogger(io.Discard, nil),
		Certificate: FixedCertificate(edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))), Now: time.Now,
		Handler: http.NotFoundHandler(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run() }()
	conn, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(wait.Limit))
	two := wiretest.Keep2(t, conn)
	if err := two.Framer.WritePing(false, [8]byte{}); err != nil {
		t.Fatal(err)
	}
	window := uint32(1<<16 - 1) // RFC 9113, 6.9.2
	for answered := false; !answered; {
		frame, err := two.Framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.WindowUpdateFrame:
			window += frame.Increment
		case *http2.PingFrame:
			answered = frame.IsAck()
		}
	}
	if window > maxUnread {
		t.Errorf("%d bytes may be sent", window)
	}
	_ = conn.Close()
	s.Drain(t.Context())
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// answering answers the pings of a server, until the connection is closed.
func answering(c *wiretest.Kept2) {
	go func() {
		for {
			frame, err := c.Framer.ReadFrame()
			if err != nil {
				return
			}
			if ping, is := frame.(*http2.PingFrame); is && !ping.IsAck() {
				_ = c.Framer.WritePing(true, ping.Data)
			}
		}
	}()
}

// pipeListener accepts what is dialled.
type pipeListener struct {
	dialled chan net.Conn
	closed  context.Context
	close   context.CancelFunc
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialled:
		return conn, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.close()
	return nil
}

func (*pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// bufferedConn is an end of a pipe that is written to without waiting for the reader.
type bufferedConn struct {
	net.Conn
	written chan []byte
	ended   context.Context
	end     context.CancelFunc
}

func buffered(conn net.Conn) *bufferedConn {
	c := &bufferedConn{Conn: conn, written: make(chan []byte, 1000)}
	c.ended, c.end = context.WithCancel(context.Background())
	go func() {
		for {
			select {
			case p := <-c.written:
				_, _ = conn.Write(p)
			case <-c.ended.Done():
				for len(c.written) > 0 {
					_, _ = conn.Write(<-c.written)
				}
				_ = conn.Close()
				return
			}
		}
	}()
	return c
}

func (c *bufferedConn) Write(p []byte) (int, error) {
	c.written <- slices.Clone(p)
	return len(p), nil
}

// SetWriteDeadline does nothing, as for a kernel that has taken what was written.
func (c *bufferedConn) SetWriteDeadline(time.Time) error { return nil }

func (c *bufferedConn) SetDeadline(at time.Time) error { return c.SetReadDeadline(at) }

func (c *bufferedConn) Close() error {
	c.end()
	return nil
}
