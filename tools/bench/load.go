package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// load is what the load generator is told to do: HTTP/1.1 requests over so many connections, on each one after the
// other. It reads a load from its input, prepares, and says "ready"; told "go", it sends, and prints a loadResult.
type load struct {
	Address     string
	Roots       []byte // PEM; empty: plain HTTP
	Connections int
	Duration    time.Duration
	Warmup      time.Duration // before "ready"; only for requests that may be sent again and again
	Requests    []string      // as they go over the wire
	// Once sends each request once and ends when there are no more; else they are sent round and round.
	Once bool
	// Chain makes the next request of a connection from the last answer: its refresh token follows ChainHead, with
	// ChainForm in between. Connection n begins with Requests[n].
	Chain                bool
	ChainHead, ChainForm string
	// WantStatus is that of each answer. With 0 all are counted, and a connection that breaks is replaced.
	WantStatus int
	Max        int  // requests of a connection; 0: as many as there is time for
	Timeline   bool // return the latencies in order
}

// loadResult is what was measured.
type loadResult struct {
	Error     string
	Count     int
	Elapsed   time.Duration
	P50, P99  time.Duration
	CPU       time.Duration   // of the load generator itself
	BodySize  int             // of the last answer
	Latencies []time.Duration // in order, where asked for
	Statuses  map[int]int     // how often, where any will do; 0: broken off
	Peak      int             // requests under way at one time, of an open loop
}

func generateLoad(in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	var l load
	if err := decoder.Decode(&l); err != nil {
		return err
	}
	result, err := l.run(func() error {
		fmt.Fprintln(out, `"ready"`)
		var word string
		return decoder.Decode(&word) // "go"
	})
	if err != nil {
		result.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(result)
}

func (l *load) run(ready func() error) (loadResult, error) {
	var next atomic.Int64
	workers := make([]*worker, l.Connections)
	for n := range workers {
		workers[n] = &worker{load: l, n: n, next: &next, statuses: map[int]int{}}
		if err := workers[n].connect(); err != nil {
			return loadResult{}, err
		}
		defer func() { _ = workers[n].wire.Close() }()
	}
	if l.Warmup > 0 {
		if err := together(workers, l.Warmup); err != nil {
			return loadResult{}, err
		}
		for _, w := range workers {
			w.latencies = w.latencies[:0]
			clear(w.statuses)
		}
	}
	if err := ready(); err != nil {
		return loadResult{}, err
	}
	cpu, start := ownCPU(), time.Now()
	err := together(workers, l.Duration)
	result := loadResult{Elapsed: time.Since(start), CPU: ownCPU() - cpu, Statuses: map[int]int{}}
	var all []time.Duration
	for _, w := range workers {
		all = append(all, w.latencies...)
		result.BodySize = max(result.BodySize, w.bodySize)
		for status, n := range w.statuses {
			result.Statuses[status] += n
		}
	}
	if l.Timeline {
		result.Latencies = slices.Clone(all)
	}
	slices.Sort(all)
	result.Count = len(all)
	result.P50, result.P99 = percentile(all, 50), percentile(all, 99)
	return result, err
}

// percentile of sorted durations.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// together lets all workers send for some time, and returns the first failure.
func together(workers []*worker, duration time.Duration) error {
	var group sync.WaitGroup
	failures := make(chan error, len(workers))
	end := time.Now().Add(duration)
	for _, w := range workers {
		group.Go(func() {
			if err := w.send(end); err != nil {
				failures <- err
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

// worker is one connection.
type worker struct {
	load      *load
	n         int
	next      *atomic.Int64
	wire      *wire
	request   string // of a chain
	latencies []time.Duration
	statuses  map[int]int // where any will do
	bodySize  int
}

func (w *worker) connect() (err error) {
	if w.wire, err = dial(w.load.Address, w.load.Roots); err != nil {
		return err
	}
	if w.load.Chain {
		w.request = w.load.Requests[w.n]
	}
	return nil
}

func (w *worker) send(end time.Time) error {
	if err := w.wire.SetDeadline(end.Add(answerLimit)); err != nil {
		return err
	}
	for now := time.Now(); now.Before(end); {
		request := w.request
		if !w.load.Chain {
			n := int(w.next.Add(1) - 1)
			if w.load.Once && n >= len(w.load.Requests) {
				return nil
			}
			request = w.load.Requests[n%len(w.load.Requests)]
		}
		status, body, err := w.ask(request)
		then := now
		now = time.Now()
		w.latencies = append(w.latencies, now.Sub(then))
		switch {
		case w.load.WantStatus == 0:
			w.statuses[status]++ // 0: broken off
			if err != nil || w.wire.last {
				if err := w.again(end); err != nil {
					return err
				}
				now = time.Now()
			}
		case err != nil:
			return err
		case status != w.load.WantStatus:
			return fmt.Errorf("status %d, want %d: %s", status, w.load.WantStatus, body)
		}
		if len(w.latencies) == w.load.Max {
			return nil
		}
		if w.load.Chain {
			if err := w.follow(body); err != nil {
				return err
			}
			now = time.Now()
		}
	}
	return nil
}

// ask reads the answer; its body is kept only where it is needed.
func (w *worker) ask(request string) (int, []byte, error) {
	response, err := w.wire.ask(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if w.load.Chain || w.load.WantStatus != 0 && response.StatusCode != w.load.WantStatus {
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, body, err
	}
	n, err := io.Copy(io.Discard, response.Body)
	w.bodySize = int(n)
	if err != nil {
		return 0, nil, err
	}
	return response.StatusCode, nil, nil
}

// again replaces a connection that broke, or was closed after an answer.
func (w *worker) again(end time.Time) error {
	_ = w.wire.Close()
	if err := w.connect(); err != nil {
		return err
	}
	return w.wire.SetDeadline(end.Add(answerLimit))
}

// follow makes the next request of a chain.
func (w *worker) follow(body []byte) error {
	var tokens struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.Unmarshal(body, &tokens); err != nil {
		return err
	}
	w.request = formOf(w.load.ChainHead, w.load.ChainForm+tokens.RefreshToken)
	return nil
}
