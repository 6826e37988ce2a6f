package restart_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/testing/wiretest"
)

// A proxy's own error says that nothing was attempted if no server can have had the request, and never otherwise.
func TestErrorsOfProxies(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, e2e.Proxied) string{"HAProxy": e2e.StartHAProxy, "nginx": e2e.StartNginx} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var came atomic.Int64
			release := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the proxy leaves
				if r.Method == http.MethodPost {   // not a check
					came.Add(1)
				}
				switch r.URL.Path {
				case "/reset":
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					_ = conn.(*net.TCPConn).SetLinger(0)
					_ = conn.Close()
				case "/held":
					<-release
				case "/hang":
					<-r.Context().Done()
				case "/busy":
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			defer server.Close()
			listen := server.Listener.Addr().String()
			const most = 3 // requests of a source at a time
			p := e2e.Proxied{Dir: t.TempDir(), Listen: []string{listen, listen}, Ready: []string{listen, listen}, Replace: []string{
				"timeout server 30s", "timeout server 2s", "proxy_read_timeout 30s", "proxy_read_timeout 2s", "timeout http-request 10s", "timeout http-request 2s",
				"client_body_timeout 10s", "client_body_timeout 2s", "(requests) gt 256", fmt.Sprint("(requests) gt ", most), "connect_sources 256", fmt.Sprint("connect_sources ", most),
				"max_conns=256", "max_conns=1",
			}}
			e2e.WriteCertificate(t, p.Dir, edgetest.Certificate(t, "connect.example.com", time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
			address := start(t, p)
			ask := func(path, body string) wiretest.Answer {
				return wiretest.HTTP1(t, wiretest.Dial(t, address, "http/1.1"), fmt.Sprintf("POST %s HTTP/1.1\nHost: connect.example.com\nContent-Length: 3\n\n%s", path, body))
			}
			check := func(event string, got wiretest.Answer, attempted bool, statuses ...int) {
				t.Helper()
				known := false
				for _, status := range statuses {
					known = known || got.Status == status
				}
				if !known || (got.Header.Get("Connect-Outcome") == "not-attempted") == attempted || (got.Header.Get("Retry-After") == "1") == attempted {
					t.Errorf("%s: %d %v", event, got.Status, got.Header)
				}
			}
			ready := func() { // nginx leaves out for a second a server that failed
				t.Helper()
				wait.Until(t, "the proxy sends requests on", func() bool { return ask("/", "abc").Status == http.StatusOK })
			}
			// The server resets what it has read. Clients send again what gets no answer on a connection that was used before, or REFUSED_STREAM.
			ready()
			check("the server resets the first request", ask("/reset", "abc"), true, 502)
			ready()
			kept := wiretest.Dial(t, address, "http/1.1")
			const post = "POST %s HTTP/1.1\nHost: connect.example.com\nContent-Length: 3\n\nabc"
			if got := wiretest.HTTP1(t, kept, fmt.Sprintf(post, "/")); got.Status != http.StatusOK {
				t.Errorf("the first request of a connection: %d", got.Status)
			}
			check("the server resets the second request", wiretest.HTTP1(t, kept, fmt.Sprintf(post, "/reset")), true, 502)
			ready()
			check("the server resets a request of HTTP/2", wiretest.HTTP2(t, wiretest.Dial(t, address, "h2"), wiretest.Data("abc"),
				":method", "POST", ":scheme", "https", ":authority", "connect.example.com", ":path", "/reset", "content-length", "3"), true, 502)
			ready()
			check("the server answers 503", ask("/busy", "abc"), true, 503)

			answers := make(chan wiretest.Answer, most)
			begin := func(n int64, path string) {
				t.Helper()
				before := came.Load()
				for range n {
					conn := wiretest.Dial(t, address, "http/1.1")
					go func() { answers <- wiretest.HTTP1(t, conn, fmt.Sprintf(post, path)) }()
				}
				wait.Until(t, "the server has them", func() bool { return came.Load()-before >= n })
			}
			begin(2, "/held") // all places of nginx for what has not waited
			check("the server resets a request that has waited", ask("/reset", "abc"), true, 502)
			ready()
			close(release)
			<-answers
			<-answers

			begin(most, "/hang")
			check("too many of a source", ask("/", "abc"), false, 503)
			for range most {
				check("the server does not answer", <-answers, true, 502, 504)
			}

			before := came.Load()
			if got := ask("/", "a"); came.Load() != before {
				t.Errorf("a request without its body was sent on: %d", got.Status)
			}
			server.Close()
			check("the server refuses connections", ask("/", "abc"), false, 503)
		})
	}
}
