package main

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// warmUp opens the service's connections to the database and prepares their statements.
const warmUp = 250 * time.Millisecond

// load is HTTP/1.1 requests over so many connections.
type load struct {
	endpoint
	connections int
	requests    source
	// warm sends for a moment before the measurement: only where requests may be sent again and again.
	warm bool
	// anyStatus counts all statuses and replaces a connection that breaks. Otherwise each response must have status 200.
	anyStatus bool
}

// source returns the next request of the n-th connection, or false when there are no more. body is that of the
// connection's last response, or nil.
type source func(n int, body []byte) (request string, more bool)

// inTurns sends the requests round and round.
func inTurns(requests ...string) source {
	var sent atomic.Int64
	return func(int, []byte) (string, bool) { return requests[int(sent.Add(1)-1)%len(requests)], true }
}

// eachOnce sends each request once.
func eachOnce(requests []string) source {
	var sent atomic.Int64
	return func(int, []byte) (string, bool) {
		n := int(sent.Add(1) - 1)
		if n >= len(requests) {
			return "", false
		}
		return requests[n], true
	}
}

// chains refreshes the n-th of some connections of one client on the n-th connection of the loop, with the token of the
// last response.
func chains(connections []connection) source {
	return func(n int, body []byte) (string, bool) {
		token := connections[n].RefreshToken
		if body != nil {
			var tokens struct {
				RefreshToken string `json:"refresh_token"`
			}
			_ = json.Unmarshal(body, &tokens) // without a token the next request fails
			token = tokens.RefreshToken
		}
		return refreshRequest(connections[n].client, token), true
	}
}

// callers are the connections of a load.
type callers []*caller

// connect connects the callers, and warms up the service.
func (l load) connect() (c callers, err error) {
	for n := range l.connections {
		w, err := l.endpoint.connect()
		if err != nil {
			c.close()
			return nil, err
		}
		c = append(c, &caller{load: l, n: n, wire: w})
	}
	if l.warm {
		if _, err := c.run(warmUp); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// run lets each caller send one request after the other for a duration, or until there are no more.
func (c callers) run(duration time.Duration) (Sample, error) {
	sample := Sample{Statuses: map[int]int{}}
	var group errgroup.Group
	start, cpu := time.Now(), ownCPU()
	for _, caller := range c {
		caller.latencies, caller.statuses = nil, map[int]int{}
		group.Go(func() error { return caller.run(start.Add(duration)) })
	}
	err := group.Wait()
	sample.Elapsed, sample.CPU = time.Since(start), ownCPU()-cpu
	for _, caller := range c {
		sample.Latencies = append(sample.Latencies, caller.latencies...)
		sample.BodySize = max(sample.BodySize, len(caller.body))
		for status, n := range caller.statuses {
			sample.Statuses[status] += n
		}
	}
	return sample, err
}

func (c callers) close() {
	for _, caller := range c {
		if caller.wire != nil {
			_ = caller.wire.Close()
		}
	}
}

// caller is one connection of a load.
type caller struct {
	load
	n         int
	wire      *wire
	body      []byte // of the last response
	latencies []time.Duration
	statuses  map[int]int
}

func (c *caller) run(end time.Time) error {
	for time.Now().Before(end) {
		request, more := c.requests(c.n, c.body)
		if !more {
			return nil
		}
		sent := time.Now()
		status, body, err := c.wire.send(request)
		c.latencies = append(c.latencies, time.Since(sent))
		c.statuses[status]++
		c.body = body
		switch {
		case !c.anyStatus && err == nil && status != http.StatusOK:
			return statusError(status, http.StatusOK, body)
		case !c.anyStatus && err != nil:
			return err
		case c.anyStatus && (err != nil || c.wire.last):
			_ = c.wire.Close()
			if c.wire, err = c.endpoint.connect(); err != nil {
				return err
			}
		}
	}
	return nil
}
