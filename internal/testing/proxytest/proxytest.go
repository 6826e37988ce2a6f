// Package proxytest gives a server an address that stays the same while the server behind it restarts, moves, is away or hangs.
package proxytest

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy carries TCP connections to a server.
type Proxy struct {
	// TurnedAway counts the connections that were closed because there was no server.
	TurnedAway atomic.Int64
	// Passed counts the others.
	Passed atomic.Int64
	// Hang stops all connections while it is locked: nothing arrives, and neither end is told.
	Hang    sync.RWMutex
	address string
	server  atomic.Pointer[string] // nil: there is none
}

// New is a proxy without a server. It ends with the test.
func New(t testing.TB) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{address: listener.Addr().String()}
	life, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		end()
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.pass(life, from) })
		}
	})
	return p
}

// Open makes the proxy lead to the server at a URL, and returns its URL by way of the proxy.
func (p *Proxy) Open(t testing.TB, server string) string {
	t.Helper()
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	host := at.Host
	p.server.Store(&host)
	at.Host = p.address
	return at.String()
}

// Close turns away new connections until the next Open.
func (p *Proxy) Close() { p.server.Store(nil) }

func (p *Proxy) pass(life context.Context, from net.Conn) {
	defer from.Close()
	server := p.server.Load()
	if server == nil {
		p.TurnedAway.Add(1)
		return
	}
	p.Passed.Add(1)
	to, err := net.Dial("tcp", *server)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(life, func() { _ = from.Close(); _ = to.Close() })()
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		p.carry(to, from)
		_ = to.(*net.TCPConn).CloseWrite() // the server may still be at work on what was sent
	})
	p.carry(from, to)
	_ = from.Close()
}

func (p *Proxy) carry(to io.Writer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.Hang.RLock()
		_, failed := to.Write(buffer[:n])
		p.Hang.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}
