package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/domain/oauth"
)

// tokenServer answers refreshes of chains as the service does, where one failure loses the chain.
type tokenServer struct {
	requests atomic.Int64 // after those that connect

	mu       sync.Mutex
	current  map[string]int // generation of a chain's refresh token
	under    map[string]bool
	failures []string
}

func (a *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != discovery.path {
		defer a.requests.Add(1)
	}
	if r.Method == http.MethodGet {
		return
	}
	chain, generation, _ := strings.Cut(r.PostFormValue("refresh_token"), ".")
	a.mu.Lock()
	current, busy := a.current[chain], a.under[chain]
	a.under[chain] = true
	a.mu.Unlock()
	if busy || generation != fmt.Sprint(current) {
		a.fail(fmt.Sprintf("chain %s: token %s, of which %d is current; another under way: %v", chain, generation, current, busy))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if chain == "bad" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	a.mu.Lock()
	a.current[chain]++
	a.under[chain] = false
	a.mu.Unlock()
	fmt.Fprintf(w, `{"access_token": "a", "refresh_token": "%s.%d"}`, chain, current+1)
}

func (a *tokenServer) fail(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, what)
}

// sendUntil lets the others send, with nobody else, until the server has answered so many requests in all.
func sendUntil(o *others, answered *atomic.Int64, requests int64) (sample, error) {
	return o.during(0, func(begin func()) error {
		begin()
		for answered.Load() < requests {
			<-time.After(time.Millisecond)
		}
		return nil
	})
}

func TestOthersFollowChains(t *testing.T) {
	t.Parallel()
	a := &tokenServer{current: map[string]int{}, under: map[string]bool{}}
	server := httptest.NewServer(a)
	defer server.Close()
	var connected []connection
	for _, chain := range []string{"1", "bad", "2", "3", "4"} {
		connected = append(connected, connection{Tokens: oauth.Tokens{RefreshToken: chain + ".0"}})
	}
	o := newOthers(endpoint{address: server.Listener.Addr().String()}, connected)
	sent := 0
	for range 2 { // the chains go on
		got, err := sendUntil(o, &a.requests, a.requests.Load()+20)
		if err != nil || len(got.Latencies) < 20 {
			t.Errorf("%d requests, want 20: %v", len(got.Latencies), err)
		}
		sent += (len(got.Latencies) + 1) / 2
	}
	if len(a.failures) > 0 {
		t.Error(strings.Join(a.failures, "\n"))
	}
	if got := a.current["1"] + a.current["2"] + a.current["3"] + a.current["4"]; got != sent-1 {
		t.Errorf("%d refreshes succeeded, want all %d but the one that lost its chain", got, sent)
	}
}

// A latency counts from the instant at which the request was due, so it includes the wait for a response before it.
func TestOthersCountFromTheInstant(t *testing.T) {
	t.Parallel()
	var answered atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != discovery.path {
			<-time.After(100 * time.Millisecond)
			defer answered.Add(1)
		}
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	o := newOthers(endpoint{address: server.Listener.Addr().String()}, make([]connection, 1))
	got, err := sendUntil(o, &answered, 2)
	if err != nil || len(got.Latencies) < 2 || got.figures().P50 < 100 || got.figures().P99 < 150 {
		t.Errorf("requests every 25 ms, of which one is under way at a time for 100 ms: %+v, %v", got, err)
	}
}
