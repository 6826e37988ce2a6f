package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/domain/oauth"
)

func runLoad(t *testing.T, server *httptest.Server, l load) (sample, error) {
	t.Helper()
	callers, err := l.connect(endpoint{address: server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer callers.close()
	return callers.run(time.Hour)
}

// Prepared requests may end before the time is over: the rate counts the time that they took.
func TestLoadEndsWithItsRequests(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	sample, err := runLoad(t, server, load{connections: 3, requests: eachOnce(slices.Repeat([]request{{path: "/"}}, 50))})
	if err != nil || len(sample.Latencies) != 50 || sample.Elapsed >= time.Hour || sample.figures().Rate < 1 {
		t.Errorf("%+v, %v", sample, err)
	}
}

// If any status will do, all are counted, over new connections where the server ends one.
func TestLoadCountsStatuses(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == discovery.path {
			return // connects
		}
		switch n.Add(1) % 4 {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			w.Header().Set("Connection", "close")
		case 2:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	l := load{connections: 2, requests: eachOnce(slices.Repeat([]request{{path: "/"}}, 40)), anyStatus: true}
	sample, err := runLoad(t, server, l)
	if err != nil {
		t.Fatal(err)
	}
	if s := sample.Statuses; s[0] != 10 || s[http.StatusOK] != 20 || s[http.StatusTooManyRequests] != 10 {
		t.Errorf("statuses %v", s)
	}
}

// Each connection sends the refresh token of its last response.
func TestLoadFollowsChains(t *testing.T) {
	t.Parallel()
	a := &tokenServer{current: map[string]int{}, under: map[string]bool{}}
	server := httptest.NewServer(a)
	defer server.Close()
	var connected []connection
	for _, chain := range []string{"1", "2"} {
		connected = append(connected, connection{Tokens: oauth.Tokens{RefreshToken: chain + ".0"}})
	}
	refresh, left := chains(connected), [2]int{10, 20}
	l := load{connections: 2, requests: func(n int, body []byte) (request, bool) {
		left[n]--
		next, more := refresh(n, body)
		return next, more && left[n] >= 0
	}}
	if _, err := runLoad(t, server, l); err != nil || a.current["1"] != 10 || a.current["2"] != 20 {
		t.Errorf("%v, %v: %v", a.current, a.failures, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
