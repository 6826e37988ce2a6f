package sdk_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	local "connect-svc/internal/local/authority"
)

// network is what lies between a driver and the scripted service: certificates, an egress proxy, and the fault that a test puts there.
type network struct {
	t            *testing.T
	certificates serverCertificates
	http2        bool
	admitted     queue // for the service
	service      *door
	proxy        *door
	dropping     string // where each SYN is dropped
	tunnels      int
	bytes        bool // of a request came on a connection that the service had closed

	mu    sync.Mutex
	fault string
	gone  chan struct{} // closed when the fault is taken away
	open  map[net.Conn]bool
}

// serverCertificates are those of the service, good and bad, and the file with the authorities that the drivers trust.
type serverCertificates struct {
	good, expired, unknown tls.Certificate
	trusted                string
}

// throughProxy is a host that only the egress proxy knows, unresolvable one that no resolver is asked for: it is too long.
var (
	throughProxy = "connect.example"
	unresolvable = strings.Repeat(strings.Repeat("a", 63)+".", 4) + "invalid"
)

func newCertificates(t *testing.T) (c serverCertificates) {
	t.Helper()
	dir := t.TempDir()
	issue := func(file string, now time.Time) tls.Certificate {
		issued, err := local.Once(filepath.Join(dir, file), now, throughProxy)
		if err != nil {
			t.Fatal(err)
		}
		return issued.Server
	}
	c.good = issue("good.pem", time.Now())
	c.expired = issue("expired.pem", time.Now().AddDate(-2, 0, 0)) // its authority is still valid
	c.unknown = issue("unknown.pem", time.Now())
	c.trusted = filepath.Join(dir, "trusted.pem")
	var both []byte
	for _, file := range []string{"good.pem", "expired.pem"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	if err := os.WriteFile(c.trusted, both, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// newNetwork ends with the test. The service is to serve what is admitted.
func newNetwork(t *testing.T, c serverCertificates, protocol int) *network {
	t.Helper()
	n := &network{t: t, certificates: c, http2: protocol == 2, admitted: queue{conns: make(chan net.Conn), closed: make(chan struct{})}, gone: make(chan struct{}), open: map[net.Conn]bool{}}
	n.service = newDoor(t, n.admit)
	n.proxy = newDoor(t, n.tunnel)
	n.dropping = dropping(t)
	t.Cleanup(func() {
		n.put("over")
		n.put("over")
		n.mu.Lock()
		defer n.mu.Unlock()
		for conn := range n.open {
			_ = conn.Close()
		}
	})
	return n
}

// put takes the fault away that is there, and puts another; none is empty.
func (n *network) put(fault string) {
	n.mu.Lock()
	former := n.fault
	n.fault = fault
	close(n.gone)
	n.gone = make(chan struct{})
	if fault == "idle-closed" {
		for conn := range n.open {
			_ = conn.(*net.TCPConn).CloseWrite() // what comes is still seen
		}
	}
	n.mu.Unlock()
	for name, d := range map[string]*door{"connection-refused": n.service, "proxy-refuses": n.proxy} {
		switch {
		case fault == name:
			d.shut()
		case former == name:
			d.open(n.t)
		}
	}
}

func (n *network) now() (fault string, gone chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fault, n.gone
}

// sawBytes says that a request was written to a connection that the service had closed.
func (n *network) sawBytes() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes
}

// tunneled is how many connections the egress proxy was asked for, whatever became of them.
func (n *network) tunneled() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tunnels
}

// base is the address of the service, by way of the proxy or directly, and where the fault needs one, another.
func (n *network) base(via, fault string) string {
	_, port, _ := net.SplitHostPort(n.service.address)
	switch {
	case fault == "name-unknown":
		return "https://" + unresolvable
	case fault == "syn-dropped":
		return "https://" + n.dropping
	case via == "proxy":
		return "https://" + net.JoinHostPort(throughProxy, port)
	}
	return "https://" + net.JoinHostPort("localhost", port)
}

// environment tells a driver whom to trust, and where the proxy is.
func (n *network) environment() []string {
	proxy := "http://" + n.proxy.address
	return append(os.Environ(), "SSL_CERT_FILE="+n.certificates.trusted, "REQUESTS_CA_BUNDLE="+n.certificates.trusted,
		"NODE_EXTRA_CA_CERTS="+n.certificates.trusted, "HTTPS_PROXY="+proxy, "https_proxy="+proxy, "NO_PROXY=localhost,127.0.0.1,.invalid",
		"no_proxy=localhost,127.0.0.1,.invalid")
}

// tlsConfig shows the certificate of the moment.
func (n *network) tlsConfig() *tls.Config {
	protocols := []string{"http/1.1"}
	if n.http2 {
		protocols = []string{"h2"}
	}
	// No sessions: who takes up a former one sees no certificate.
	config := &tls.Config{Certificates: []tls.Certificate{n.certificates.good}, NextProtos: protocols, SessionTicketsDisabled: true}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		fault, _ := n.now()
		own := &tls.Config{Certificates: config.Certificates, NextProtos: protocols, SessionTicketsDisabled: true}
		switch fault {
		case "certificate-unknown":
			own.Certificates = []tls.Certificate{n.certificates.unknown}
		case "certificate-expired":
			own.Certificates = []tls.Certificate{n.certificates.expired}
		}
		return own, nil
	}
	return config
}

// admit gives a connection to the service, unless the fault ends it before.
func (n *network) admit(conn *net.TCPConn) {
	n.mu.Lock()
	n.open[conn] = true
	n.mu.Unlock()
	fault, gone := n.now()
	switch fault {
	case "handshake-reset":
		_, _ = conn.Read(make([]byte, 1))
		reset(conn)
	case "handshake-silent":
		<-gone
		_ = conn.Close()
	case "goaway", "refused-stream":
		n.refuseStreams(conn, fault)
	default:
		n.admitted.conns <- &watched{conn, n, fault}
	}
}

// mostAlert is more bytes than TLS needs to say goodbye, and fewer than any request has.
const mostAlert = 64

// watched is a connection that is reset when a request is written to it while the fault is reset-reused or idle-closed: it was there before.
type watched struct {
	*net.TCPConn
	network *network
	since   string
}

func (w *watched) Read(b []byte) (int, error) {
	count, err := w.TCPConn.Read(b)
	fault, _ := w.network.now()
	switch {
	case count == 0 || w.since == fault:
		return count, err
	case fault == "idle-closed" && count > mostAlert:
		w.network.mu.Lock()
		w.network.bytes = true
		w.network.mu.Unlock()
	case fault != "reset-reused":
		return count, err
	}
	reset(w.TCPConn)
	return 0, syscall.ECONNRESET
}

// reset closes a connection so that the other side is told of a failure.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// refuseStreams speaks HTTP/2, and processes no request: it goes away before the first, or refuses each.
func (n *network) refuseStreams(raw *net.TCPConn, fault string) {
	conn := tls.Server(raw, n.tlsConfig())
	defer func() { _ = conn.Close() }()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	err := framer.WriteSettings()
	for err == nil {
		var frame http2.Frame
		if frame, err = framer.ReadFrame(); err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			if fault == "refused-stream" {
				err = framer.WriteRSTStream(frame.StreamID, http2.ErrCodeRefusedStream)
			} else {
				err = framer.WriteGoAway(0, http2.ErrCodeNo, nil)
			}
		}
	}
}

// tunnel is the egress proxy, which knows the way to the service whatever the host.
func (n *network) tunnel(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	request, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	if request.Method != http.MethodConnect {
		n.t.Errorf("the proxy is asked to %s", request.Method)
	}
	answer := func(status int, field string) {
		_, _ = io.WriteString(conn, "HTTP/1.1 "+strconv.Itoa(status)+" "+http.StatusText(status)+"\r\n"+field+"\r\n")
	}
	switch fault, _ := n.now(); fault {
	case "proxy-502":
		answer(http.StatusBadGateway, "Content-Length: 0\r\n")
	case "proxy-407":
		answer(http.StatusProxyAuthRequired, "Proxy-Authenticate: Basic realm=\"egress\"\r\nContent-Length: 0\r\n")
	case "proxy-closes":
	default:
		to, err := net.Dial("tcp", n.service.address)
		if err != nil {
			n.t.Error(err)
			return
		}
		server := to.(*net.TCPConn)
		defer func() { _ = server.Close() }()
		n.mu.Lock()
		n.tunnels++
		n.open[conn] = true
		n.mu.Unlock()
		answer(http.StatusOK, "")
		go func() {
			_, _ = io.Copy(server, reader)
			_ = server.CloseWrite()
		}()
		if _, err := io.Copy(conn, server); errors.Is(err, syscall.ECONNRESET) {
			reset(conn)
		}
	}
}

// door is a listener that can be shut, so that connections to its address are refused, and opened again.
type door struct {
	address  string
	admit    func(*net.TCPConn)
	mu       sync.Mutex
	listener net.Listener
}

func newDoor(t *testing.T, admit func(*net.TCPConn)) *door {
	t.Helper()
	d := &door{address: "127.0.0.1:0", admit: admit}
	d.open(t)
	t.Cleanup(d.shut)
	return d
}

func (d *door) open(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", d.address)
	if err != nil {
		t.Error(err)
		return
	}
	d.mu.Lock()
	d.address, d.listener = listener.Addr().String(), listener
	d.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go d.admit(conn.(*net.TCPConn))
		}
	}()
}

func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.listener.Close()
}

// dropping is an address whose queue of connections is full, so that the kernel drops each SYN.
func dropping(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := errors.Join(syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(socket, 0)); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port))
	first, err := net.Dial("tcp", address) // nobody accepts it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	return address
}

// queue is the listener of what is admitted.
type queue struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (q queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q queue) Close() error   { return nil }
func (q queue) Addr() net.Addr { return &net.TCPAddr{} }
