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

	"github.com/valyala/fasthttp"
)

const (
	othersRate        = 40 // requests a second: half refreshes, half reads
	othersConnections = 16
)

// others are callers who know nothing of each other: an open loop, whose requests are due at fixed instants, however long
// those before them take. A latency is counted from the instant, so it includes the wait for a connection or a turn.
type others struct {
	client *fasthttp.HostClient
	grants chan *connection // each at most once under way, because a refresh ends the tokens that came before it

	mu     sync.Mutex // protects sample
	sample sample
}

func newOthers(server endpoint, connected []connection) *others {
	o := &others{client: server.client(othersConnections), grants: make(chan *connection, len(connected))}
	for i := range connected {
		o.grants <- &connected[i]
	}
	var group sync.WaitGroup
	for range othersConnections { // at the same time, so that each opens a connection
		group.Go(func() { _, _ = send(o.client, discovery, nil) })
	}
	group.Wait()
	return o
}

// during lets the others send from when act calls begin until it is over, and for a time at least. The chains of tokens go on
// from one call to the next.
func (o *others) during(least time.Duration, act func(begin func()) error) (sample, error) {
	o.sample = sample{Statuses: map[int]int{}}
	var began time.Time
	var group sync.WaitGroup
	stop := make(chan struct{})
	err := act(func() {
		began = time.Now()
		group.Go(func() {
			for n := 0; ; n++ {
				due := began.Add(time.Duration(n) * time.Second / othersRate)
				if !until(due, stop) {
					return
				}
				group.Go(func() { o.send(n, due) })
			}
		})
	})
	if err == nil {
		until(began.Add(least), nil)
	}
	close(stop)
	group.Wait()
	o.sample.Elapsed = time.Since(began)
	return o.sample, err
}

// send sends the n-th request, which was due at an instant: refreshes and reads in turns. The number of grants is odd, so that
// each is refreshed and read in turns, too.
func (o *others) send(n int, due time.Time) {
	var status int
	select {
	case c := <-o.grants:
		if n%2 == 0 {
			status = o.refresh(c)
		} else {
			status, _ = send(o.client, readRequest(readPath(*c, "daily-activity"), c.AccessToken), nil)
			o.grants <- c
		}
	case <-time.After(responseLimit): // all are lost
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sample.add(status, time.Since(due))
}

// refresh gives the grant back, unless the refresh fails: then nobody knows which token is current.
func (o *others) refresh(c *connection) int {
	var response fasthttp.Response
	status, _ := send(o.client, refreshRequest(c.client, c.RefreshToken), &response)
	if status == http.StatusOK && c.take(response.Body()) == nil {
		o.grants <- c
	}
	return status
}

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
