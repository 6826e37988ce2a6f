package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child that lives as long as the stage.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us, who end it
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its log says why it ended
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end, and makes it end where that takes long.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// service is a connect-svc that runs.
type service struct {
	*process
	address, private string
	profiles         string
	secure           bool
	startToReady     time.Duration
	log              string
}

// serve starts the program, and waits until it says that it is ready.
func (s *stage) serve(ctx context.Context, name string, environ ...string) (*service, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	private, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has it
	cmd := exec.Command(s.settings.program, "serve")
	cmd.Stderr = log
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"CONNECT_BASE_URL=" + baseURL,
		"CONNECT_DATABASE_URL=" + s.database.URL(),
		"CONNECT_KEYSET_FILE=" + s.keysetFile,
		"CONNECT_LISTEN=" + address,
		"CONNECT_PRIVATE_LISTEN=" + private,
		"CONNECT_SMTP_URL=smtp://127.0.0.1:1", // nobody signs in
		"CONNECT_MAIL_FROM=no-reply@connect.example",
	}, environ...)
	for _, tuning := range []string{"GOGC", "GOMEMLIMIT", "GODEBUG"} { // of Go's runtime: to try
		if value := os.Getenv(tuning); value != "" {
			cmd.Env = append(cmd.Env, tuning+"="+value)
		}
	}
	began := time.Now()
	child, err := start(cmd)
	if err != nil {
		return nil, err
	}
	started := &service{process: child, address: address, private: private, log: log.Name()}
	for {
		if ready(ctx, private) {
			started.startToReady = time.Since(began)
			return started, nil
		}
		select {
		case <-child.done:
			text, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("connect-svc ended: %s", bytes.TrimSpace(text))
		case <-ctx.Done():
			child.stop()
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func ready(ctx context.Context, private string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+private+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// spent is what a process has used since it began.
type spent struct {
	cpu         time.Duration
	allocations float64
	at          time.Time
}

// spent asks the kernel, and the service's own metrics.
func (s *service) spent(ctx context.Context) (spent, error) {
	cpu, err := cpuOf(s.cmd.Process.Pid)
	if err != nil {
		return spent{}, err
	}
	used := spent{cpu: cpu, at: time.Now()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.private+"/metrics", nil)
	if err != nil {
		return spent{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return spent{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return spent{}, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "go_memstats_mallocs_total "); found {
			used.allocations, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
			return used, err
		}
	}
	return spent{}, errors.New("the service does not count its allocations")
}

// cpuOf sums the threads of a process, to the nanosecond where Linux keeps count of it.
func cpuOf(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("process %d: no figures of its threads in /proc", pid)
	}
	var sum time.Duration
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Clean(thread))
		if err != nil {
			continue // it has just ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		nanoseconds, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		sum += time.Duration(nanoseconds)
	}
	return sum, nil
}

// peakMemory is the most that a process had in memory since forgetPeak, in MiB.
func (p *process) peakMemory() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kilobytes, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kilobytes / 1024
		}
	}
	return 0
}

func (p *process) forgetPeak() {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0) // the peak of before stays then
}

// generator is a load generator that is about to send.
type generator struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	decoder *json.Decoder
}

// prepareLoad starts a load generator and waits until it is ready.
func prepareLoad(ctx context.Context, l load) (*generator, error) { return prepare(ctx, "load", l) }

// prepare starts the subcommand of this program that takes such a task.
func prepare(ctx context.Context, subcommand string, task any) (*generator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, subcommand)
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
	g := &generator{cmd, in, json.NewDecoder(out)}
	if err := json.NewEncoder(in).Encode(task); err != nil {
		return nil, err
	}
	var answer json.RawMessage
	if err := g.decoder.Decode(&answer); err != nil {
		return nil, err
	}
	if string(answer) == `"ready"` {
		return g, nil
	}
	var result loadResult
	if err := json.Unmarshal(answer, &result); err != nil {
		return nil, err
	}
	return nil, errors.New(result.Error)
}

// run lets it send.
func (g *generator) run() (loadResult, error) {
	var result loadResult
	if _, err := io.WriteString(g.in, "\"go\"\n"); err != nil {
		return result, err
	}
	if err := g.decoder.Decode(&result); err != nil {
		return result, err
	}
	return result, nil
}

// close ends it.
func (g *generator) close() error {
	_ = g.in.Close()
	return g.cmd.Wait()
}
