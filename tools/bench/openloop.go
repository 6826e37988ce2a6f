package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// openLoop is requests at fixed instants, however long those before them take: what callers who know nothing of each
// other do. A latency is counted from the instant, so that who waits for a connection or for its turn waits, too.
type openLoop struct {
	Address     string
	Roots       []byte // PEM
	Connections int    // kept alive
	Rate        int    // requests a second
	// The requests are either the same one again and again, or refreshes and reads of partners' connections in turns.
	Request     string
	RefreshHead string
	Grants      []*grant

	pool chan *wire

	mu       sync.Mutex // protects what follows
	measured loadResult
	under    int // way
}

// grant is a partner's connection whose chain of refresh tokens is followed.
type grant struct {
	Path                      string // of its read
	AccessToken, RefreshToken string

	turn sync.Mutex // held by its refresh: never two at a time
	mu   sync.Mutex // protects the tokens and lost
	lost bool       // a refresh failed, and nobody knows which token is current
}

// order is what the process of an open loop is told: to send for so long, or with 0 to stop sooner.
type order struct{ Duration time.Duration }

// generateOthers reads an openLoop from its input, connects, and says "ready". Then it follows the orders that come, and
// prints a loadResult after each run. The chains of tokens go on from one run to the next.
func generateOthers(in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	var o openLoop
	if err := decoder.Decode(&o); err != nil {
		return err
	}
	if err := o.connect(); err != nil {
		return json.NewEncoder(out).Encode(loadResult{Error: err.Error()})
	}
	defer o.close()
	fmt.Fprintln(out, `"ready"`)
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var next order
			if decoder.Decode(&next) != nil {
				return // the end of the input, or of the program that writes it
			}
			orders <- next
		}
	}()
	for next := range orders {
		if next.Duration == 0 {
			continue // the run was over already
		}
		stop, done := make(chan struct{}), make(chan loadResult, 1)
		go func() { done <- o.run(next.Duration, stop) }()
		var result loadResult
		select {
		case result = <-done:
		case <-orders:
			close(stop)
			result = <-done
		}
		if err := json.NewEncoder(out).Encode(result); err != nil {
			return err
		}
	}
	return nil
}

func (o *openLoop) connect() error {
	o.pool = make(chan *wire, o.Connections)
	for range o.Connections {
		w, err := dial(o.Address, o.Roots)
		if err != nil {
			return err
		}
		o.pool <- w
	}
	return nil
}

// connectLater has each connection made by who needs it first.
func (o *openLoop) connectLater() {
	o.pool = make(chan *wire, o.Connections)
	for range o.Connections {
		o.pool <- nil
	}
}

func (o *openLoop) close() {
	for range o.Connections {
		if w := <-o.pool; w != nil {
			_ = w.Close()
		}
	}
}

// run sends for some time, or until stop is closed, and waits for the last answers.
func (o *openLoop) run(duration time.Duration, stop <-chan struct{}) loadResult {
	o.measured = loadResult{Statuses: map[int]int{}}
	start, cpu := time.Now(), ownCPU()
	var group sync.WaitGroup
	for n := 0; ; n++ {
		after := time.Duration(n) * time.Second / time.Duration(o.Rate)
		if after >= duration || !until(start.Add(after), stop) {
			break
		}
		group.Go(func() { o.send(n, start.Add(after)) })
	}
	group.Wait()
	result := o.measured
	result.Elapsed, result.CPU = time.Since(start), ownCPU()-cpu
	slices.Sort(result.Latencies)
	result.Count = len(result.Latencies)
	result.P50, result.P99 = percentile(result.Latencies, 50), percentile(result.Latencies, 99)
	result.Latencies = nil
	return result
}

// until waits for an instant, and says whether it came before stop was closed.
func until(at time.Time, stop <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}

// send sends the n-th request, which was due at an instant.
func (o *openLoop) send(n int, due time.Time) {
	o.count(func() {
		o.under++
		o.measured.Peak = max(o.measured.Peak, o.under)
	})
	var status int // 0: no answer
	switch {
	case len(o.Grants) == 0:
		status, _ = o.ask(o.Request)
	case n%2 == 0:
		if g := o.grant(n / 2); g != nil {
			status = o.refresh(g)
		}
	default: // not the one whose refresh has just been sent
		if g := o.grant(n/2 + len(o.Grants)/2); g != nil {
			status, _ = o.ask(g.read())
		}
	}
	took := time.Since(due)
	o.count(func() {
		o.under--
		o.measured.Statuses[status]++
		o.measured.Latencies = append(o.measured.Latencies, took)
	})
}

func (o *openLoop) count(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// grant is the n-th one, or the next that is not lost; nil when all are.
func (o *openLoop) grant(n int) *grant {
	for i := range o.Grants {
		g := o.Grants[(n+i)%len(o.Grants)]
		g.mu.Lock()
		lost := g.lost
		g.mu.Unlock()
		if !lost {
			return g
		}
	}
	return nil
}

func (o *openLoop) refresh(g *grant) (status int) {
	g.turn.Lock()
	defer g.turn.Unlock()
	status, body := o.ask(formOf(o.RefreshHead, refreshForm+g.refreshToken()))
	var tokens struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if status != http.StatusOK || json.Unmarshal(body, &tokens) != nil {
		g.lost = true
		return status
	}
	g.AccessToken, g.RefreshToken = tokens.AccessToken, tokens.RefreshToken
	return status
}

func (g *grant) refreshToken() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.RefreshToken
}

func (g *grant) read() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return getRequest(g.Path, g.AccessToken)
}

// ask sends a request on a connection that is free. One that breaks is replaced by who needs it next.
func (o *openLoop) ask(request string) (status int, body []byte) {
	w := <-o.pool
	defer func() { o.pool <- w }()
	var err error
	if w == nil {
		if w, err = dial(o.Address, o.Roots); err != nil {
			w = nil
			return 0, nil
		}
	}
	status, body, err = w.answer(request)
	if err != nil || w.last {
		_ = w.Close()
		w = nil
	}
	return status, body
}

// others is the process of an open loop, as its parent sees it.
type others struct{ *generator }

func (o others) begin(duration time.Duration) error {
	return json.NewEncoder(o.in).Encode(order{duration})
}
func (o others) stop() error { return o.begin(0) }

// result waits for the end of the run.
func (o others) result() (result loadResult, err error) {
	err = o.decoder.Decode(&result)
	return result, err
}

func (o others) during(duration time.Duration) (loadResult, error) {
	if err := o.begin(duration); err != nil {
		return loadResult{}, err
	}
	return o.result()
}
