package main

import (
	"net/http"
	"sync"
	"time"

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

// until waits for an instant, and says whether it came before stop.
func until(at time.Time, stop <-chan struct{}) bool {
	select {
	case <-time.After(time.Until(at)):
		return true
	case <-stop:
		return false
	}
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
