package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
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
	WantStatus           int
	Max                  int  // requests of a connection; 0: as many as there is time for
	Timeline             bool // return the latencies in order
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
		workers[n] = &worker{load: l, n: n, next: &next}
		if err := workers[n].connect(); err != nil {
			return loadResult{}, err
		}
		defer workers[n].conn.Close()
	}
	if l.Warmup > 0 {
		if err := together(workers, l.Warmup); err != nil {
			return loadResult{}, err
		}
		for _, w := range workers {
			w.latencies = w.latencies[:0]
		}
	}
	if err := ready(); err != nil {
		return loadResult{}, err
	}
	cpu, start := ownCPU(), time.Now()
	err := together(workers, l.Duration)
	result := loadResult{Elapsed: time.Since(start), CPU: ownCPU() - cpu}
	var all []time.Duration
	for _, w := range workers {
		all = append(all, w.latencies...)
		result.BodySize = max(result.BodySize, w.bodySize)
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
	conn      net.Conn
	reader    *bufio.Reader
	request   string // of a chain
	latencies []time.Duration
	bodySize  int
}

func (w *worker) connect() (err error) {
	if len(w.load.Roots) == 0 {
		w.conn, err = net.Dial("tcp", w.load.Address)
	} else {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(w.load.Roots)
		w.conn, err = tls.Dial("tcp", w.load.Address, &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13})
	}
	if err != nil {
		return err
	}
	w.reader = bufio.NewReaderSize(w.conn, 64<<10)
	if w.load.Chain {
		w.request = w.load.Requests[w.n]
	}
	return nil
}

func (w *worker) send(end time.Time) error {
	for now := time.Now(); now.Before(end); {
		request := w.request
		if !w.load.Chain {
			n := int(w.next.Add(1) - 1)
			if w.load.Once && n >= len(w.load.Requests) {
				return nil
			}
			request = w.load.Requests[n%len(w.load.Requests)]
		}
		if _, err := io.WriteString(w.conn, request); err != nil {
			return err
		}
		response, err := http.ReadResponse(w.reader, nil)
		if err != nil {
			return err
		}
		body, err := w.body(response)
		if err != nil {
			return err
		}
		then := now
		now = time.Now()
		w.latencies = append(w.latencies, now.Sub(then))
		if response.StatusCode != w.load.WantStatus {
			return fmt.Errorf("status %d, want %d: %s", response.StatusCode, w.load.WantStatus, body)
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

// body reads the answer; it is kept only where it is needed.
func (w *worker) body(response *http.Response) ([]byte, error) {
	defer response.Body.Close()
	if w.load.Chain || response.StatusCode != w.load.WantStatus {
		return io.ReadAll(response.Body)
	}
	n, err := io.Copy(io.Discard, response.Body)
	w.bodySize = int(n)
	return nil, err
}

// follow makes the next request of a chain.
func (w *worker) follow(body []byte) error {
	var tokens struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.Unmarshal(body, &tokens); err != nil {
		return err
	}
	form := w.load.ChainForm + tokens.RefreshToken
	w.request = strings.Replace(w.load.ChainHead, "{length}", fmt.Sprint(len(form)), 1) + form
	return nil
}
