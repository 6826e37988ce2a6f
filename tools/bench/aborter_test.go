package main

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/local/authority"
)

// abortAt lets an aborter work until it has done enough, for a minute at most, with resets after a time.
func abortAt(t *testing.T, after time.Duration, enough func(*aborter) bool, handler http.HandlerFunc) *aborter {
	t.Helper()
	trusted, err := authority.Open(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2, server.TLS = true, &tls.Config{Certificates: []tls.Certificate{trusted.Server}, MinVersion: tls.VersionTLS13}
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 5}
	server.StartTLS()
	t.Cleanup(server.Close)
	a := &aborter{
		endpoint: endpoint{server.Listener.Addr().String(), trusted.Roots}, streams: 5, after: after,
		requests: []request{{path: "/page"}, {path: "/read", authorization: "Bearer a"}},
	}
	for limit := time.Now().Add(time.Minute); !enough(a) && time.Now().Before(limit); {
		if err := a.run(2, time.Now().Add(200*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func TestAborterResetsWhatItOpens(t *testing.T) {
	t.Parallel()
	var pages, reads, ended atomic.Int64
	enough := func(*aborter) bool { return pages.Load() > 0 && reads.Load() > 0 && ended.Load() > 10 }
	a := abortAt(t, time.Millisecond, enough, func(_ http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/page" && r.Header.Get("Authorization") == "":
			pages.Add(1)
		case r.URL.Path == "/read" && r.Header.Get("Authorization") == "Bearer a":
			reads.Add(1)
		}
		<-r.Context().Done()
		ended.Add(1)
	})
	if !enough(a) || a.reset.Load() <= 10 {
		t.Errorf("%d pages and %d reads came, %d ended, %d were reset", pages.Load(), reads.Load(), ended.Load(), a.reset.Load())
	}
}

func TestAborterConnectsAgain(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	a := abortAt(t, 10*time.Millisecond, func(a *aborter) bool { return a.connected.Load() > 2 && requests.Load() > 20 }, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%20 == 0 {
			w.Header().Set("Connection", "close") // GOAWAY, in HTTP/2
		}
	})
	if a.connected.Load() <= 2 || requests.Load() <= 20 {
		t.Errorf("%d connections, %d requests", a.connected.Load(), requests.Load())
	}
}
