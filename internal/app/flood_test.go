package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/app/listener"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/testing/wiretest"
)

// One network opens more connections than there is room for, and sends nothing or half of a request. Another one is answered all the
// time, on a connection that stays open, too, and finds room for as many as it may have.
func TestFloodFromOneNetwork(t *testing.T) {
	t.Parallel()
	a, _, _ := openWith(t, func(c *Config) { c.Memory = 1 })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	most := a.public.Counts().Places
	var open []net.Conn
	dial := func(from byte) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}
		conn, err := dialer.Dial("tcp", a.PublicAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		_ = conn.SetDeadline(time.Now().Add(wait.Limit))
		return conn
	}
	kept := wiretest.Keep1(dial(3))
	for n := range 3 * most {
		conn := dial(2)
		if n%2 == 0 {
			_, _ = io.WriteString(conn, "POST /oauth/token HTTP/1.1\r\nHost: connect.example.com\r\nContent-Length: 8\r\n"+
				"Content-Type: application/x-www-form-urlencoded\r\n\r\n") // fails if the connection was refused
		}
		for name, conn := range map[string]*wiretest.Kept1{"a connection that stays open": kept, "a new connection": wiretest.Keep1(dial(3))} {
			if status, closes := conn.Ask(t, discovery); status != http.StatusOK || closes {
				t.Fatalf("%s: %d, closes %t", name, status, closes)
			}
		}
	}
	counts := a.public.Counts()
	if counts.Open > most || counts.Replaced+counts.Refused < uint64(2*most) {
		t.Errorf("of %d places: %+v", most, counts)
	}
	_, metrics := edgetest.GetAnew(t, "http://"+a.PrivateAddr().String()+"/metrics")
	for _, want := range []string{
		`connect_http_connections_limit{listener="public"} 64`, `connect_http_connections_limit{listener="private"} 8`,
		`connect_http_connections_closed_total{listener="public",outcome="replaced"} ` + fmt.Sprint(counts.Replaced),
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Two networks ask for as much as there are places for, in requests that are whole or never become so, and begin anew what ends. A visitor
// from a third network is answered each time.
func TestSiege(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	a, _, _ := openWith(t, func(c *Config) {
		c.Memory, c.Certificate, c.ReadyListen = 1, listener.FixedCertificate(pair), "127.0.0.1:0"
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for _, test := range []struct {
		name        string
		server      *listener.Server
		http2, slow bool
	}{
		{"public, HTTP/2, slow", a.public, true, true}, {"public, HTTP/2, whole", a.public, true, false}, {"public, HTTP/1, slow", a.public, false, true},
		{"private, slow", a.private, false, true}, {"ready, slow", a.probing, false, true},
	} {
		{
			siege := wiretest.Siege{
				Server: test.server.Addr().String(), TLS: test.server == a.public, HTTP2: test.http2, Slow: test.slow,
				Networks: []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.4")}, Connections: test.server.Counts().Places,
			}
			if siege.HTTP2 {
				siege.Connections /= 16
			}
			besieged, lift := context.WithCancel(t.Context())
			var laid sync.WaitGroup
			laid.Go(func() { siege.Lay(besieged) })
			enough := int64(test.server.Counts().Places)
			// The places of connections of HTTP/2 that were dropped with their streams are free again after two minutes, which is all the time that
			// one wait has.
			for again := time.Now().Add(wait.Limit); siege.Asked.Load() < enough && time.Now().Before(again); {
				work.Pause(t.Context(), 10*time.Millisecond)
			}
			wait.Until(t, "all places are asked for", func() bool { return siege.Asked.Load() >= enough })
			visitor := &http.Client{Timeout: wait.Limit, Transport: &http.Transport{
				DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 3)}}).DialContext,
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
				ForceAttemptHTTP2: test.http2,
				DisableKeepAlives: true,
			}}
			scheme, path := "http", "/healthz"
			if siege.TLS {
				scheme, path = "https", discovery
			}
			const visits = 30
			failed := 0
			for range visits {
				answer, err := visitor.Get(scheme + "://" + siege.Server + path)
				if err == nil {
					_ = answer.Body.Close()
				}
				if err != nil || answer.StatusCode != http.StatusOK {
					failed++
				}
			}
			if failed > 0 {
				t.Errorf("%s: %d of %d visits fail beside %d requests: %+v", test.name, failed, visits, siege.Asked.Load(), test.server.Counts())
			}
			lift()
			laid.Wait()
		}
	}
}

// A request that got no place is refused, and the answer says that nothing was attempted.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	defer a.Close()
	for _, test := range []struct {
		handler      http.Handler
		method, path string
		status       int
		body         string
		outcome      string
	}{
		{a.Handler(), http.MethodPost, "/oauth/token", 500, `"server_error"`, "not-attempted"},
		{a.Handler(), http.MethodGet, "/connect-svc/v1/grants/1/daily-activity", 503, `"data_unavailable"`, ""},
		{a.Handler(), http.MethodGet, "/account", 503, "busy", ""},
		{a.PrivateHandler(), http.MethodGet, "/healthz", 503, "busy", ""},
	} {
		answer := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(listener.WithoutPlace(t.Context()), test.method, test.path, nil)
		r.Host = "localhost"
		test.handler.ServeHTTP(answer, r)
		if answer.Code != test.status || !strings.Contains(answer.Body.String(), test.body) ||
			answer.Header().Get("Connect-Outcome") != test.outcome {
			t.Errorf("%s: %d %v %s", test.path, answer.Code, answer.Header(), answer.Body)
		}
	}
}
