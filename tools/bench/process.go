package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// start runs a program until the stage is closed, and waits until it is ready.
func (s *stage) start(ctx context.Context, name string, cmd *exec.Cmd, ready func() error) error {
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which stops the others
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second // a program that takes longer is killed
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.running.Go(func() {
		_ = cmd.Wait() // its log says why it ended
		close(ended)
	})
	for ready() != nil {
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s ended: %s", name, bytes.TrimSpace(text))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

// dial says whether somebody listens on an address.
func dial(address string) error {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() //nolint:errcheck // at the end, so that no two are the same
		addresses[i] = listener.Addr().String()
	}
	return addresses, nil
}

// service is a connect-svc that runs.
type service struct {
	*exec.Cmd
	endpoint
	name, private, profiles string // the last two are addresses
	startToReady            time.Duration
}

func (s *stage) serve(ctx context.Context, name string, secure bool, environ ...string) (*service, error) {
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	started := &service{endpoint: endpoint{address: addresses[0]}, name: name, private: addresses[1], profiles: addresses[2]}
	cmd := exec.CommandContext(s.life, s.Program, "serve")
	started.Cmd = cmd
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"CONNECT_BASE_URL=" + baseURL,
		"CONNECT_DATABASE_URL=" + s.database.URL(),
		"CONNECT_KEYSET_FILE=" + s.keysetFile(),
		"CONNECT_LISTEN=" + started.address,
		"CONNECT_PRIVATE_LISTEN=" + started.private,
		"CONNECT_DRAIN_DELAY=0",
		"CONNECT_SMTP_URL=smtp://127.0.0.1:1", // nobody signs in
		"CONNECT_MAIL_FROM=no-reply@connect.example",
		"CONNECT_OPERATOR_TOKEN=" + secret,
		"CONNECT_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8,::1/128", "SSL_CERT_FILE=" + s.authority.File,
	}, environ...)
	if name == lookingOn {
		cmd.Args = append(cmd.Args, "--read-only")
	}
	if s.Profiles != "" {
		cmd.Env = append(cmd.Env, "CONNECT_PROFILE_LISTEN="+started.profiles)
	}
	if secure {
		started.roots = s.authority.Roots
		cmd.Env = append(cmd.Env, "CONNECT_TLS_CERT="+filepath.Join(s.dir, "server.pem"), "CONNECT_TLS_KEY="+filepath.Join(s.dir, "server-key.pem"))
	}
	for _, tuning := range []string{"GOGC", "GOMEMLIMIT", "GODEBUG"} { // of Go's runtime: to try
		if value := os.Getenv(tuning); value != "" {
			cmd.Env = append(cmd.Env, tuning+"="+value)
		}
	}
	began := time.Now()
	err = s.start(ctx, name, cmd, func() error {
		_, err := get(ctx, http.DefaultClient, "http://"+started.private+"/readyz")
		return err
	})
	started.startToReady = time.Since(began)
	return started, err
}

// lookingOn is the name of a server that only shows the database to operators.
const lookingOn = "looking on"

// command has the program carry out a command line.
func (s *stage) command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.Program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CONNECT_DATABASE_URL=" + s.database.URL(), "CONNECT_KEYSET_FILE=" + s.keysetFile(), "CONNECT_OPERATOR=ada"}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

var operatorHeader = http.Header{"Authorization": {"Bearer " + secret}, "Content-Type": {"application/json"}}

// ask sends a request to the private listener. An answer that is neither good nor a redirect is an error.
func (s *service) ask(ctx context.Context, method, path, body string, header http.Header) (answer []byte, cookies []*http.Cookie, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.private+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header = header
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	answer, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, answer)
	}
	return answer, response.Cookies(), err
}

// get is the body of a response with status 200.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// spent is what a service has used since it began: milliseconds of processors, and allocations; and what PostgreSQL and Redis have used,
// with the bytes of the write-ahead log.
type spent struct{ cpu, databaseCPU, redisCPU, wal, allocations float64 }

func (s spent) since(before spent, n int) used {
	each := func(after, before float64) float64 { return (after - before) / float64(n) }
	return used{
		cpu: each(s.cpu, before.cpu), databaseCPU: each(s.databaseCPU, before.databaseCPU), redisCPU: each(s.redisCPU, before.redisCPU),
		wal: each(s.wal, before.wal), allocations: each(s.allocations, before.allocations),
	}
}

var (
	cpuSeconds  = regexp.MustCompile(`(?m)^process_cpu_seconds_total (.*)$`)
	allocations = regexp.MustCompile(`(?m)^go_memstats_mallocs_total (.*)$`)
	firstNumber = regexp.MustCompile(`^(\d+)`)
	peakMemory  = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)
)

// spent asks the service's own metrics, and the kernel about PostgreSQL.
func (s *stage) spent(ctx context.Context, of *service) (spent, error) {
	metrics, err := get(ctx, http.DefaultClient, "http://"+of.private+"/metrics")
	if err != nil {
		return spent{}, err
	}
	used := spent{cpu: 1000 * number(cpuSeconds, metrics), databaseCPU: s.databaseCPU(), redisCPU: onCPU(s.redisPID), allocations: number(allocations, metrics)}
	err = s.conn.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&used.wal)
	return used, err
}

// databaseCPU returns how many milliseconds of processors the processes of PostgreSQL that run have used.
func (s *stage) databaseCPU() (total float64) {
	lock, _ := os.ReadFile(filepath.Join(s.database.Dir(), "data", "postmaster.pid"))
	postmaster, _, _ := strings.Cut(string(lock), "\n")
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%s/task/%[1]s/children", postmaster))
	for pid := range strings.FieldsSeq(string(children)) {
		total += onCPU(pid)
	}
	return total
}

// onCPU returns how many milliseconds of a processor a process has used.
func onCPU(pid string) float64 {
	nanoseconds, _ := os.ReadFile(filepath.Join("/proc", pid, "schedstat"))
	return number(firstNumber, nanoseconds) / 1e6
}

// number is what a pattern finds in a text.
func number(pattern *regexp.Regexp, text []byte) (n float64) {
	if found := pattern.FindSubmatch(text); found != nil {
		n, _ = strconv.ParseFloat(string(found[1]), 64)
	}
	return n
}

// peakRSS is the most that a service had in memory since measureOperation began, in MiB.
func (s *service) peakRSS() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Process.Pid))
	return number(peakMemory, text) / 1024
}
