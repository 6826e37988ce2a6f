package browsertest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// shared is the Chromium of all tests that take one from Share at the same time. Starting it takes as long as all that many
// a test does with it.
var shared struct {
	mu    sync.Mutex
	users int
	ctx   context.Context
	stop  func()
}

// Share is a browser that other tests use, too. They share no window, and so no cookies. It accepts the servers of
// [httptest.NewTLSServer]. Its tabs find the hosts, whatever the port, at addresses such as "127.0.0.1:41234", so that pages
// have the names, the origins and the sites that they would have in the world; nil is for pages of this machine.
func Share(t testing.TB, hosts map[string]string) *Browser {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		server := httptest.NewTLSServer(nil) // all have the same certificate
		server.Close()
		ctx, stop, err := start(server.Certificate())
		if err != nil {
			stop()
			t.Fatal(err)
		}
		shared.ctx, shared.stop = ctx, stop
	}
	shared.users++
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		if shared.users--; shared.users == 0 {
			shared.stop()
		}
	})
	browser := &Browser{ctx: shared.ctx}
	if hosts != nil {
		browser.proxy = "http://" + Proxy(t, hosts)
	}
	return browser
}

// Proxy is the address of a proxy through which a browser finds the hosts, as in [Share].
func Proxy(t testing.TB, hosts map[string]string) (address string) {
	t.Helper()
	proxy := httptest.NewServer(tunnel(hosts))
	t.Cleanup(proxy.Close)
	return proxy.Listener.Addr().String()
}

// tunnel is a proxy that leads to the addresses of hosts, and to nothing else.
func tunnel(hosts map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil || r.Method != http.MethodConnect || hosts[host] == "" {
			http.Error(w, "no such host", http.StatusBadGateway)
			return
		}
		server, err := net.Dial("tcp", hosts[host])
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer server.Close()
		browser, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer browser.Close()
		if _, err := io.WriteString(browser, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			return // it has gone
		}
		go func() {
			defer server.Close()
			_, _ = io.Copy(server, buffered) // until one of them closes
		}()
		_, _ = io.Copy(browser, server)
	})
}
