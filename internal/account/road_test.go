package account

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// road leads to a mail server, and can be blocked.
type road struct {
	address string
	came    chan struct{} // somebody wanted to pass

	mu    sync.Mutex
	state roadState
	conns []net.Conn
}

type roadState int

const (
	open   roadState = iota
	closed           // whoever comes is turned back at once
	stuck            // whoever comes hears nothing
)

func newRoad(t *testing.T, to string, state roadState) *road {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &road{address: listener.Addr().String(), came: make(chan struct{}, 1000), state: state}
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

func (r *road) pass(conn net.Conn, to string) {
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

// set also ends what is on the road.
func (r *road) set(state roadState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.conns = nil
}

// slowRecipients is a mail server that never says whether it takes a recipient.
func slowRecipients(conn net.Conn, waiting chan<- net.Conn) {
	defer conn.Close()
	_, _ = io.WriteString(conn, "220 mail.example\r\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "RCPT") {
			waiting <- conn
			continue
		}
		_, _ = io.WriteString(conn, "250 mail.example\r\n")
	}
}
