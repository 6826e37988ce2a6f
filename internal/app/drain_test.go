package app

import (
	"bufio"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// While it drains the service answers everybody, also on new connections, tells load balancers that it should be sent
// nothing more, and ends each connection with an answer.
func TestDrain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	a, _, _ := openWith(t, func(c *Config) {
		c.Certificate, c.ReadyListen, c.DrainDelay = FixedCertificate(pair), "127.0.0.1:0", time.Hour
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()

	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	dial := func(protocol string) *tls.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", a.PublicAddr().String(), &tls.Config{
			RootCAs: roots, ServerName: "connect.example.com", NextProtos: []string{protocol},
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(wait.Limit))
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	one, two := openHTTP1(dial("http/1.1")), openHTTP2(t, dial("h2"))
	if status, closes := one.ask(t); status != http.StatusOK || closes {
		t.Errorf("before, HTTP/1: %d, closes %t", status, closes)
	}
	if status, away := two.ask(t, 1); status != "200" || away {
		t.Errorf("before, HTTP/2: %s, GOAWAY %t", status, away)
	}
	balancer := "http://" + a.probing.listener.Addr().String()
	if status, body := edgetest.GetAnew(t, balancer+"/readyz"); status != http.StatusOK || !strings.Contains(body, `"ready"`) {
		t.Errorf("before, /readyz for balancers: %d %s", status, body)
	}
	if status, _ := edgetest.GetAnew(t, balancer+"/metrics"); status != http.StatusNotFound {
		t.Errorf("/metrics for balancers: %d", status)
	}

	stop()
	wait.Until(t, "/readyz says no", func() bool {
		status, _ := edgetest.GetAnew(t, "http://"+a.PrivateAddr().String()+"/readyz")
		return status == http.StatusServiceUnavailable
	})
	if status, body := edgetest.GetAnew(t, balancer+"/readyz"); status != http.StatusServiceUnavailable || strings.Contains(body, "reason") {
		t.Errorf("/readyz for balancers: %d %s", status, body)
	}
	if status, _ := edgetest.GetAnew(t, balancer+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz for balancers: %d", status)
	}
	for name, conn := range map[string]*http1{"a connection": one, "a new connection": openHTTP1(dial("http/1.1"))} {
		if status, closes := conn.ask(t); status != http.StatusOK || !closes {
			t.Errorf("%s, HTTP/1: %d, closes %t", name, status, closes)
		}
		if _, err := conn.reader.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s, HTTP/1: it is left open: %v", name, err)
		}
	}
	if status, away := two.ask(t, 3); status != "200" || !away {
		t.Errorf("HTTP/2: %s, GOAWAY %t", status, away)
	}

	// A listener that fails ends the drain, which would last an hour.
	if err := a.private.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "CONNECT_PRIVATE_LISTEN") {
		t.Errorf("Run returned %v", err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(balancer, "http://")); err == nil {
		_ = conn.Close()
		t.Error("the listener for balancers is still open")
	}
}

const discovery = "/.well-known/oauth-authorization-server"

// http1 is one connection of HTTP/1.1.
type http1 struct {
	conn   net.Conn
	reader *bufio.Reader
}

func openHTTP1(conn net.Conn) *http1 { return &http1{conn, bufio.NewReader(conn)} }

// ask returns the status of an answer, and whether it says that the connection ends.
func (c *http1) ask(t *testing.T) (status int, closes bool) {
	t.Helper()
	if _, err := io.WriteString(c.conn, "GET "+discovery+" HTTP/1.1\r\nHost: connect.example.com\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Close
}

// http2Conn is one connection of HTTP/2, frame by frame.
type http2Conn struct {
	framer *http2.Framer
	text   strings.Builder // of headers that are being encoded
}

func openHTTP2(t *testing.T, conn net.Conn) *http2Conn {
	t.Helper()
	c := &http2Conn{framer: http2.NewFramer(conn, conn)}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask returns the status of an answer on a new stream, and whether a GOAWAY came by its end. A GOAWAY is awaited for longer if
// it is expected, which is from the second stream on.
func (c *http2Conn) ask(t *testing.T, stream uint32) (status string, away bool) {
	t.Helper()
	c.text.Reset()
	encoder := hpack.NewEncoder(&c.text)
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: http.MethodGet}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "connect.example.com"}, {Name: ":path", Value: discovery},
	} {
		if err := encoder.WriteField(field); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(c.text.String()), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for done := false; !done || stream > 1 && !away; {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			status = frame.PseudoValue("status")
			done = frame.StreamEnded()
		case *http2.DataFrame:
			done = frame.StreamEnded()
		case *http2.GoAwayFrame:
			away = frame.ErrCode == http2.ErrCodeNo && frame.LastStreamID >= stream
		}
	}
	return status, away
}
