package account

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy forwards connections to a mail server, and can be blocked.
type proxy struct {
	address string
	came    chan struct{} // a connection was accepted

	mu    sync.Mutex
	state proxyState
	conns []net.Conn
}

type proxyState int

const (
	open   proxyState = iota
	closed            // connections are closed at once
	stuck             // connections hang
)

func newProxy(t *testing.T, to string, state proxyState) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &proxy{address: listener.Addr().String(), came: make(chan struct{}, 1000), state: state}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.pass(conn, to)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		r.set(closed)
	})
	return r
}

func (r *proxy) pass(conn net.Conn, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, conn)
	r.came <- struct{}{}
	switch r.state {
	case closed:
		_ = conn.Close()
	case open:
		go func() {
			defer conn.Close()
			server, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(server, conn) }()
			_, _ = io.Copy(conn, server)
		}()
	}
}

// set also closes the open connections.
func (r *proxy) set(state proxyState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.conns = nil
}
