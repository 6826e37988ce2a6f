package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// abortAt lets an aborter work until it has done enough, for a minute at most, with resets after a time, at a server of HTTP/2 without TLS.
func abortAt(t *testing.T, after time.Duration, enough func(*aborter) bool, handler http.HandlerFunc) *aborter {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 5}
	server.Start()
	t.Cleanup(server.Close)
	a := &aborter{
		endpoint: endpoint{address: server.Listener.Addr().String()}, most: 100, after: after,
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
	var pages, reads atomic.Int64
	a := abortAt(t, time.Millisecond, func(a *aborter) bool { return pages.Load() > 0 && reads.Load() > 0 && a.opened.Load() > 10 }, func(_ http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/page" && r.Header.Get("Authorization") == "":
			pages.Add(1)
		case r.URL.Path == "/read" && r.Header.Get("Authorization") == "Bearer a":
			reads.Add(1)
		}
		<-r.Context().Done()
	})
	if pages.Load() == 0 || reads.Load() == 0 {
		t.Errorf("%d pages and %d reads came", pages.Load(), reads.Load())
	}
	if a.opened.Load() <= 10 || a.answered.Load() != 0 {
		t.Errorf("%d streams opened, of which %d were answered", a.opened.Load(), a.answered.Load())
	}
	if a.refused.Load() != 0 {
		t.Errorf("the server refused %d streams: it allows 5 at a time", a.refused.Load())
	}
}

func TestAborterConnectsAgain(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	a := abortAt(t, 10*time.Millisecond, func(a *aborter) bool { return a.connected.Load() > 2 && a.answered.Load() > 0 }, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%20 == 0 {
			w.Header().Set("Connection", "close") // GOAWAY, in HTTP/2
		}
	})
	if a.connected.Load() <= 2 || a.answered.Load() == 0 {
		t.Errorf("%d connections, %d answers", a.connected.Load(), a.answered.Load())
	}
}
