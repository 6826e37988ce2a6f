package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// authority answers refreshes of chains as the service does, where one failure loses the chain.
type authority struct {
	mu       sync.Mutex
	current  map[string]int // generation of a chain's refresh token
	under    map[string]bool
	failures []string
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

func (a *authority) fail(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, what)
}

func newOpenLoop(t *testing.T, handler http.Handler, o *openLoop) *openLoop {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	o.Address = server.Listener.Addr().String()
	return o
}

func connected(t *testing.T, o *openLoop) *openLoop {
	t.Helper()
	if err := o.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	return o
}

func TestOpenLoopFollowsChains(t *testing.T) {
	t.Parallel()
	a := &authority{current: map[string]int{}, under: map[string]bool{}}
	o := connected(t, newOpenLoop(t, a, &openLoop{
		Connections: 4, Rate: 400, RefreshHead: formHead("/oauth/token", 0),
		Grants: []*grant{{Path: "/1", RefreshToken: "1.0"}, {Path: "/bad", RefreshToken: "bad.0"}, {Path: "/2", RefreshToken: "2.0"}},
	}))
	for range 2 { // the chains go on
		result := o.run(250*time.Millisecond, nil)
		if result.Count != 100 || result.Elapsed < 240*time.Millisecond {
			t.Errorf("%d requests in %v, want 100 in 250 ms", result.Count, result.Elapsed)
		}
	}
	if len(a.failures) > 0 {
		t.Error(strings.Join(a.failures, "\n"))
	}
	if got := a.current["1"] + a.current["2"]; got != 99 {
		t.Errorf("%d refreshes went well, want all 100 but the one that lost its chain", got)
	}
}

// Who waits for a connection has waited since the instant at which the request was due.
func TestOpenLoopCountsFromTheInstant(t *testing.T) {
	t.Parallel()
	var first sync.Once
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		first.Do(func() { <-time.After(100 * time.Millisecond) })
	})
	o := connected(t, newOpenLoop(t, slow, &openLoop{Connections: 1, Rate: 100, Request: getRequest("/", "")}))
	result := o.run(50*time.Millisecond, nil)
	if result.Statuses[http.StatusOK] != 5 || result.P50 < 60*time.Millisecond || result.Peak != 5 {
		t.Errorf("5 requests in 50 ms behind one of 100 ms: %+v", result)
	}
}

func TestOpenLoopIsStopped(t *testing.T) {
	t.Parallel()
	o := newOpenLoop(t, http.NotFoundHandler(), &openLoop{Connections: 2, Rate: 1000, Request: getRequest("/", "")})
	orders, in := io.Pipe()
	out, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- generateOthers(orders, answers) }()
	tell, hear := json.NewEncoder(in), json.NewDecoder(out)
	var word string
	if err := tell.Encode(o); err != nil {
		t.Fatal(err)
	}
	if err := hear.Decode(&word); err != nil || word != "ready" {
		t.Fatalf("%q, %v", word, err)
	}
	for _, orders := range [][]time.Duration{{time.Hour, 0}, {time.Millisecond}, {time.Hour, 0}} {
		for _, d := range orders {
			if err := tell.Encode(order{d}); err != nil {
				t.Fatal(err)
			}
		}
		var result loadResult
		if err := hear.Decode(&result); err != nil || result.Statuses[http.StatusNotFound] != result.Count {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	_ = in.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
