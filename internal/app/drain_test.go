package app

import (
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

	"connect-svc/internal/app/listener"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/testing/wiretest"
)

// While it drains the service answers everybody, also on new connections, tells load balancers that it should be sent
// nothing more, and ends each connection with an answer.
func TestDrain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	a, _, _ := openWith(t, func(c *Config) {
		c.Certificate, c.ReadyListen, c.DrainDelay = listener.FixedCertificate(pair), "127.0.0.1:0", time.Hour
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
	one, two := wiretest.Keep1(dial("http/1.1")), wiretest.Keep2(t, dial("h2"))
	if status, closes := one.Ask(t, discovery); status != http.StatusOK || closes {
		t.Errorf("before, HTTP/1: %d, closes %t", status, closes)
	}
	if status, away := two.Ask(t, discovery, 1); status != "200" || away {
		t.Errorf("before, HTTP/2: %s, GOAWAY %t", status, away)
	}
	balancer := "http://" + a.ReadyAddr().String()
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
	for name, conn := range map[string]*wiretest.Kept1{"a connection": one, "a new connection": wiretest.Keep1(dial("http/1.1"))} {
		if status, closes := conn.Ask(t, discovery); status != http.StatusOK || !closes {
			t.Errorf("%s, HTTP/1: %d, closes %t", name, status, closes)
		}
		if _, err := conn.Reader.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s, HTTP/1: it is left open: %v", name, err)
		}
	}
	if status, away := two.Ask(t, discovery, 3); status != "200" || !away {
		t.Errorf("HTTP/2: %s, GOAWAY %t", status, away)
	}

	// A listener that fails ends the drain, which would last an hour.
	a.private.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "CONNECT_PRIVATE_LISTEN") {
		t.Errorf("Run returned %v", err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(balancer, "http://")); err == nil {
		_ = conn.Close()
		t.Error("the listener for balancers is still open")
	}
}

const discovery = "/.well-known/oauth-authorization-server"
