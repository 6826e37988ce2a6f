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

func TestAborterResetsWhatItOpens(t *testing.T) {
	t.Parallel()
	trusted, err := authority.Open(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var pages, reads, ended atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/page" && r.Header.Get("Authorization") == "":
			pages.Add(1)
		case r.URL.Path == "/read" && r.Header.Get("Authorization") == "Bearer a":
			reads.Add(1)
		}
		<-r.Context().Done()
		ended.Add(1)
	}))
	server.EnableHTTP2, server.TLS = true, &tls.Config{Certificates: []tls.Certificate{trusted.Server}, MinVersion: tls.VersionTLS13}
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 5}
	server.StartTLS()
	defer server.Close()
	a := aborter{requests: inTurns(request{path: "/page"}, request{path: "/read", authorization: "Bearer a"})}
	for limit := time.Now().Add(time.Minute); (pages.Load() == 0 || reads.Load() == 0 || ended.Load() <= 10) && time.Now().Before(limit); {
		sent := sendStreams(endpoint{server.Listener.Addr().String(), trusted.Roots}, 2, 10, 200*time.Millisecond, a.ask, func() {})
		if len(sent.Statuses) != 1 || sent.Statuses[0] == 0 {
			t.Fatalf("statuses %v", sent.Statuses)
		}
	}
	if pages.Load() == 0 || reads.Load() == 0 || ended.Load() <= 10 || a.reset.Load() <= 10 {
		t.Errorf("%d pages and %d reads came, %d ended, %d were reset", pages.Load(), reads.Load(), ended.Load(), a.reset.Load())
	}
}
