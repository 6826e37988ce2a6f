package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// tokenServer answers refreshes of chains as the service does, where one failure loses the chain.
type tokenServer struct {
	mu       sync.Mutex
	current  map[string]int // generation of a chain's refresh token
	under    map[string]bool
	failures []string
}

func (a *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

func startOthers(t *testing.T, handler http.Handler, task Task) *Others {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	task.Address = server.Listener.Addr().String()
	o := &Others{}
	if err := o.Connect(task, nil); err != nil {
		t.Fatal(err)
	}
	return o
}

func grants(n int) []*Grant {
	list := make([]*Grant, n)
	for i := range list {
		list[i] = &Grant{ReadPath: "/"}
	}
	return list
}

func TestOthersFollowChains(t *testing.T) {
	t.Parallel()
	a := &tokenServer{current: map[string]int{}, under: map[string]bool{}}
	o := startOthers(t, a, Task{Pool: 4, Rate: 400, Grants: []*Grant{
		{"/1", "", "1.0"}, {"/bad", "", "bad.0"}, {"/2", "", "2.0"}, {"/3", "", "3.0"}, {"/4", "", "4.0"},
	}})
	for range 2 { // the chains go on
		var sample Sample
		if err := o.Run(250*time.Millisecond, &sample); err != nil || len(sample.Latencies) != 100 || sample.Elapsed < 240*time.Millisecond {
			t.Errorf("%d requests in %v, want 100 in 250 ms: %v", len(sample.Latencies), sample.Elapsed, err)
		}
	}
	if len(a.failures) > 0 {
		t.Error(strings.Join(a.failures, "\n"))
	}
	if got := a.current["1"] + a.current["2"] + a.current["3"] + a.current["4"]; got != 99 {
		t.Errorf("%d refreshes succeeded, want all 100 but the one that lost its chain", got)
	}
}

// Who waits for a connection has waited since the instant at which the request was due.
func TestOthersCountFromTheInstant(t *testing.T) {
	t.Parallel()
	var first sync.Once
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		first.Do(func() { <-time.After(100 * time.Millisecond) })
	})
	o := startOthers(t, slow, Task{Pool: 1, Rate: 100, Grants: grants(5)})
	var sample Sample
	if err := o.Run(50*time.Millisecond, &sample); err != nil || sample.Statuses[http.StatusOK] != 5 || sample.figures().P50 < 60 {
		t.Errorf("5 requests in 50 ms behind one of 100 ms: %+v, %v", sample, err)
	}
}

// A stop that comes after its run does not end the next one.
func TestOthersAreStopped(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	o := startOthers(t, handler, Task{Pool: 2, Rate: 1000, Grants: grants(9)})
	stop := func() {
		if err := o.Stop(struct{}{}, nil); err != nil {
			t.Error(err)
		}
	}
	stop()
	time.AfterFunc(50*time.Millisecond, stop)
	var sample Sample
	if err := o.Run(time.Hour, &sample); err != nil || sample.Elapsed < 50*time.Millisecond {
		t.Errorf("stopped after %v, want 50 ms: %v", sample.Elapsed, err)
	}
}
