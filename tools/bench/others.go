package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/rpc"
	"os"
	"os/exec"
	"sync"
	"time"

	"connect-svc/internal/local/authority"
)

// Others are callers who know nothing of each other: an open loop, whose requests are due at fixed instants, however long
// those before them take. A latency is counted from the instant, so that who waits for a connection or for its turn waits, too.
// They run in a process of their own, which follows its parent's calls by net/rpc.
type Others struct {
	task     Task
	endpoint endpoint
	stop     chan struct{}
	wires    chan *wire  // nil: one that broke, which is replaced by who needs it next
	grants   chan *Grant // each at most once under way, because a refresh ends the tokens that came before it

	mu     sync.Mutex // protects sample
	sample Sample
}

// Task is what the others are to do.
type Task struct {
	Address   string
	Authority string // directory of the certificate authority; empty: plain HTTP
	Client    int    // partner B
	Rate      int    // requests a second: half refreshes, half reads
	Pool      int    // connections, kept alive
	Grants    []*Grant
}

// Grant is a connection of the partner whose chain of refresh tokens is followed.
type Grant struct{ ReadPath, AccessToken, RefreshToken string }

func serveOthers() error {
	server := rpc.NewServer()
	if err := server.Register(&Others{}); err != nil {
		return err
	}
	server.ServeConn(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
	return nil
}

// Connect makes the others ready.
func (o *Others) Connect(t Task, _ *struct{}) error {
	o.task, o.endpoint, o.stop = t, endpoint{address: t.Address}, make(chan struct{}, 1)
	if t.Authority != "" {
		local, err := authority.Open(t.Authority, time.Now())
		if err != nil {
			return err
		}
		o.endpoint.roots = local.Roots
	}
	o.grants, o.wires = make(chan *Grant, len(t.Grants)), make(chan *wire, t.Pool)
	for _, g := range t.Grants {
		o.grants <- g
	}
	for range t.Pool {
		w, err := o.endpoint.connect()
		if err != nil {
			return err
		}
		o.wires <- w
	}
	return nil
}

// Stop ends the present run.
func (o *Others) Stop(struct{}, *struct{}) error {
	o.stop <- struct{}{}
	return nil
}

// Run sends for some time, or until it is stopped, and waits for the last responses. The chains of tokens go on from one run
// to the next.
func (o *Others) Run(duration time.Duration, sample *Sample) error {
	select {
	case <-o.stop: // came after the end of the run that it was for
	default:
	}
	o.sample = Sample{Statuses: map[int]int{}}
	start, cpu := time.Now(), ownCPU()
	var group sync.WaitGroup
	for n := 0; ; n++ {
		after := time.Duration(n) * time.Second / time.Duration(o.task.Rate)
		if after >= duration || !until(start.Add(after), o.stop) {
			break
		}
		group.Go(func() { o.send(n, start.Add(after)) })
	}
	group.Wait()
	o.sample.Elapsed, o.sample.CPU = time.Since(start), ownCPU()-cpu
	*sample = o.sample
	return nil
}

// until waits for an instant, and says whether it came before stop.
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

// send sends the n-th request, which was due at an instant: refreshes and reads in turns. The number of grants is odd, so that
// each is refreshed and read in turns, too.
func (o *Others) send(n int, due time.Time) {
	status := 0 // no response
	select {
	case g := <-o.grants:
		if n%2 == 0 {
			status = o.refresh(g)
		} else {
			status, _ = o.ask(getRequest(g.ReadPath, g.AccessToken))
			o.grants <- g
		}
	case <-time.After(responseLimit): // all are lost
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sample.Statuses[status]++
	o.sample.Latencies = append(o.sample.Latencies, time.Since(due))
}

// refresh gives the grant back, unless the refresh fails: then nobody knows which token is current.
func (o *Others) refresh(g *Grant) (status int) {
	status, body := o.ask(refreshRequest(o.task.Client, g.RefreshToken))
	var tokens struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	if status == http.StatusOK && json.Unmarshal(body, &tokens) == nil {
		g.AccessToken, g.RefreshToken = tokens.AccessToken, tokens.RefreshToken
		o.grants <- g
	}
	return status
}

// ask sends a request on a connection that is free.
func (o *Others) ask(request string) (status int, body []byte) {
	w := <-o.wires
	defer func() { o.wires <- w }()
	if w == nil {
		connected, err := o.endpoint.connect()
		if err != nil {
			return 0, nil
		}
		w = connected
	}
	status, body, err := w.send(request)
	if err != nil || w.last {
		_ = w.Close()
		w = nil
	}
	return status, bytes.Clone(body) // the next request on the connection overwrites it
}

// othersProcess is the process of the others, as its parent sees it.
type othersProcess struct {
	cmd     *exec.Cmd
	rpc     *rpc.Client
	running *rpc.Call
}

// startOthers starts the process, and returns when it is connected.
func (s *isolation) startOthers(ctx context.Context, connected []connection) (*othersProcess, error) {
	task := Task{Address: s.service.address, Authority: s.dir, Client: partnerB, Rate: 40, Pool: 16}
	for _, c := range connected {
		task.Grants = append(task.Grants, &Grant{readPath(c, "daily-activity"), c.AccessToken, c.RefreshToken})
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "others")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &othersProcess{cmd: cmd, rpc: rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{out, in})}
	if err := p.rpc.Call("Others.Connect", task, &struct{}{}); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *othersProcess) begin(duration time.Duration) {
	p.running = p.rpc.Go("Others.Run", duration, &Sample{}, nil)
}

func (p *othersProcess) stop() error { return p.rpc.Call("Others.Stop", struct{}{}, &struct{}{}) }

// sample waits for the end of the run.
func (p *othersProcess) sample() (Sample, error) {
	<-p.running.Done
	return *p.running.Reply.(*Sample), p.running.Error
}

func (p *othersProcess) during(duration time.Duration) (Sample, error) {
	p.begin(duration)
	return p.sample()
}

func (p *othersProcess) close() {
	_ = p.rpc.Close() // the end of its input ends it
	_ = p.cmd.Wait()
}
