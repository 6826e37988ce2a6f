package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/redistest"
)

// allSettings are good ones on a database, on ports that are free.
func allSettings(t *testing.T, db *pgtest.DB) []string {
	t.Helper()
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	succeed(t, nil, "", "keys", "create", "--out", keyset)
	return with(env(db),
		"CONNECT_BASE_URL=https://connect.example.com",
		"CONNECT_KEYSET_FILE="+keyset,
		"CONNECT_LISTEN=127.0.0.1:0",
		"CONNECT_PRIVATE_LISTEN=127.0.0.1:0",
		"CONNECT_DRAIN_DELAY=0",
		"CONNECT_DEVELOPERS_SITE=off", // each start and each reload would render it
		"CONNECT_SMTP_URL=smtp://127.0.0.1:25",
		"CONNECT_MAIL_FROM=no-reply@example.com",
	)
}

// with is an environment with more variables, of which the last of a name counts.
func with(env []string, more ...string) []string { return slices.Concat(env, more) }

// service is a `connect-svc serve` that runs.
type service struct {
	public, private, ready string // addresses
	log                    logtest.Buffer
}

// watch reads the log until it says where the service listens, and goes on reading it into the buffer of s until it
// ends; then it closes the channel that it returns. Each event has the same name of the server.
func (s *service) watch(t *testing.T, log io.Reader) <-chan struct{} {
	t.Helper()
	lines, name := bufio.NewScanner(log), ""
	for s.public == "" && lines.Scan() {
		fmt.Fprintln(&s.log, lines.Text())
		var event struct{ Msg, Server, Public, Private, Ready string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil || event.Server == "" || name != "" && event.Server != name {
			t.Fatalf("the log is not JSON, or does not name the server: %s", lines.Text())
		}
		name = event.Server
		s.public, s.private, s.ready = event.Public, event.Private, event.Ready
	}
	if s.public == "" {
		t.Fatalf("the service did not start:\n%s", s.log.String())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			fmt.Fprintln(&s.log, lines.Text())
			if !strings.Contains(lines.Text(), `"server":"`+name+`"`) {
				t.Errorf("an event does not name the server: %s", lines.Text())
			}
		}
	}()
	return ended
}

// start runs serve in process until the test ends, and checks that it ends well.
func start(t *testing.T, env []string, args ...string) *service {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, append([]string{"serve"}, args...), env, strings.NewReader(""), io.Discard, writer)
		_ = writer.Close()
	}()
	s := new(service)
	ended := s.watch(t, reader)
	t.Cleanup(func() {
		stop()
		if got := <-status; got != statusDone {
			t.Errorf("serve ended with status %d", got)
		}
		<-ended
	})
	return s
}

// get asks for a path of a listener and returns status and body.
func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// A later program's migration adds something, or removes what this program needs.
const (
	newerSchema  = "insert into goose_db_version (version_id, is_applied) values (9999, true)"
	brokenSchema = "create or replace function connect_oldest_program() returns bigint language sql immutable as 'select 9999::bigint'"
)

func TestServe(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := start(t, allSettings(t, db))
	public, private := "http://"+s.public, "http://"+s.private

	if status, body := get(t, http.DefaultClient, public+"/.well-known/oauth-authorization-server"); status != http.StatusOK ||
		!strings.Contains(body, `"issuer":"https://connect.example.com"`) {
		t.Errorf("discovery: %d %s", status, body)
	}
	if status, body := get(t, http.DefaultClient, public+"/oauth/authorize"); status != http.StatusBadRequest || !strings.Contains(body, "<html") {
		t.Errorf("authorize without parameters: %d %s", status, body)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "//oauth/token"} {
		if status, _ := get(t, http.DefaultClient, public+path); status != http.StatusNotFound {
			t.Errorf("%s on the public listener: %d", path, status)
		}
	}
	if status, _ := get(t, http.DefaultClient, private+"/oauth/authorize"); status != http.StatusNotFound {
		t.Errorf("the private listener answers for the public one: %d", status)
	}

	if status, body := get(t, http.DefaultClient, private+"/healthz"); status != http.StatusOK || !strings.Contains(body, `"ok"`) {
		t.Errorf("healthz: %d %s", status, body)
	}
	if status, body := get(t, http.DefaultClient, private+"/readyz"); status != http.StatusOK || !strings.Contains(body, `"ready"`) {
		t.Errorf("readyz: %d %s", status, body)
	}
	db.Exec(t, newerSchema)
	if status, body := get(t, http.DefaultClient, private+"/readyz"); status != http.StatusOK {
		t.Errorf("readyz on a newer schema: %d %s", status, body)
	}
	db.Exec(t, brokenSchema)
	if status, body := get(t, http.DefaultClient, private+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "9999") {
		t.Errorf("readyz on a schema for newer programs: %d %s", status, body)
	}
	if status, _ := get(t, http.DefaultClient, private+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz on a schema for newer programs: %d", status)
	}
}

// Specification 8: an authorization URL may have 16 KB; what is beyond all bounds never reaches a handler.
func TestServeHeaderLimit(t *testing.T) {
	t.Parallel()
	s := start(t, allSettings(t, pgtest.New(t)))
	long := func(n int) string { return "http://" + s.public + "/oauth/authorize?state=" + strings.Repeat("a", n) }
	if status, _ := get(t, http.DefaultClient, long(16<<10)); status != http.StatusBadRequest {
		t.Errorf("16 KB: %d", status)
	}
	// A client that is so slow that it still sends half a second after the refusal does not get to read it.
	var answer *http.Response
	err := errors.New("not asked")
	for tries := 0; err != nil && tries < 10; tries++ {
		answer, err = http.Get(long(80 << 10))
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("80 KB: %d", answer.StatusCode)
	}
}

// An upgrade without downtime: old servers run and start on the schema of the next program.
func TestServeOnANewerSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, newerSchema)
	s := start(t, allSettings(t, db))
	if status, body := get(t, http.DefaultClient, "http://"+s.private+"/readyz"); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, body)
	}
}

func TestServeWithRedis(t *testing.T) {
	t.Parallel()
	s := start(t, with(allSettings(t, pgtest.New(t)), "CONNECT_LIMITER_URL="+redistest.Start(t).URL()))
	if status, body := get(t, http.DefaultClient, "http://"+s.private+"/readyz"); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, body)
	}
}

func TestServeTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificateFiles(t)
	s := start(t, with(allSettings(t, pgtest.New(t)), "CONNECT_TLS_CERT="+cert, "CONNECT_TLS_KEY="+key))
	client := func(config *tls.Config) *http.Client {
		config.RootCAs = pool
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	}
	answer, err := client(&tls.Config{}).Get("https://" + s.public + "/.well-known/oauth-authorization-server")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		t.Errorf("discovery over TLS: %s %s", answer.Proto, answer.Status)
	}
	if _, err := client(&tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}).Get("https://" + s.public + "/"); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	if status, _ := get(t, http.DefaultClient, "http://"+s.private+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d", status)
	}
}

// The private listener has TLS of its own, and the one for load balancers has none.
func TestServePrivateTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificateFiles(t)
	s := start(t, with(allSettings(t, pgtest.New(t)), "CONNECT_PRIVATE_TLS_CERT="+cert, "CONNECT_PRIVATE_TLS_KEY="+key, "CONNECT_READY_LISTEN=127.0.0.1:0"))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if status, body := get(t, client, "https://"+s.private+"/metrics"); status != http.StatusOK ||
		!strings.Contains(body, `connect_certificate_expiry_timestamp_seconds{listener="private"}`) {
		t.Errorf("metrics over TLS: %d", status)
	}
	if status, _ := get(t, http.DefaultClient, "http://"+s.public+"/.well-known/oauth-authorization-server"); status != http.StatusOK {
		t.Errorf("discovery: %d", status)
	}
	if status, _ := get(t, http.DefaultClient, "http://"+s.ready+"/readyz"); status != http.StatusOK {
		t.Errorf("readyz for load balancers: %d", status)
	}
	if status, _ := get(t, http.DefaultClient, "http://"+s.ready+"/metrics"); status != http.StatusNotFound {
		t.Errorf("metrics for load balancers: %d", status)
	}
}

// The first SIGTERM begins the drain delay, the second ends it with everything else.
func TestServeEndsAtTheSecondSignal(t *testing.T) {
	t.Parallel()
	cmd, s, ended := startProcess(t, with(allSettings(t, pgtest.New(t)), "CONNECT_DRAIN_DELAY=60s"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for { // until it drains
		if status, _ := get(t, http.DefaultClient, "http://"+s.private+"/readyz"); status == http.StatusServiceUnavailable {
			break
		}
	}
	if status, _ := get(t, http.DefaultClient, "http://"+s.public+"/.well-known/oauth-authorization-server"); status != http.StatusOK {
		t.Errorf("discovery while it drains: %d", status)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the process ended with %v", err)
	}
}

// startProcess runs serve as a process, for tests that send it signals. It returns what is closed when its log has ended.
func startProcess(t *testing.T, env []string, args ...string) (*exec.Cmd, *service, <-chan struct{}) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"serve"}, args...)...)
	cmd.Env = with(env, asProgram+"=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := new(service)
	return cmd, s, s.watch(t, stderr)
}

// SIGTERM: nothing new is accepted, the request that runs gets its answer, and the process ends with status 0.
func TestServeStopsGracefully(t *testing.T) {
	t.Parallel()
	stopGracefully(t)
}

// stopGracefully returns how long the process took to end.
func stopGracefully(t *testing.T) time.Duration {
	t.Helper()
	cmd, s, ended := startProcess(t, allSettings(t, pgtest.New(t)))

	// A request whose body is not complete: the server is in the middle of it.
	conn, err := net.Dial("tcp", s.public)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const body = "grant_type=refresh_token&refresh_token=x"
	fmt.Fprintf(conn, "POST /oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("the server does not read the body: %q, %v", line, err)
	}

	signaled := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for { // until the listener is gone
		probe, err := net.Dial("tcp", s.public)
		if err != nil {
			break
		}
		_ = probe.Close()
	}
	if status, answer := get(t, http.DefaultClient, "http://"+s.private+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(answer, "stopping") {
		t.Errorf("readyz while stopping: %d %s", status, answer)
	}
	fmt.Fprint(conn, body)
	rest, err := io.ReadAll(answers)
	if err != nil || !strings.Contains(string(rest), "invalid_client") {
		t.Errorf("the request that ran was answered %q, %v", rest, err)
	}
	<-ended
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v:\n%s", err, s.log.String())
	}
	return time.Since(signaled)
}

// Each thing that can be missing at start is one clear line, and status 1.
func TestServeCannotStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	newer := pgtest.New(t)
	newer.Exec(t, newerSchema)
	newer.Exec(t, brokenSchema)
	good := allSettings(t, pgtest.New(t))
	sealed := pgtest.New(t)
	start(t, allSettings(t, sealed)) // with a keyset of its own

	tests := map[string]struct {
		env  []string
		says []string
	}{
		"database down":     {with(good, "CONNECT_DATABASE_URL=postgres://u:hush@127.0.0.1:1/n"), []string{"127.0.0.1:1", "connection refused"}},
		"no migrations":     {with(good, env(pgtest.NewEmpty(t))...), []string{"at migration 0", "connect-svc migrate up"}},
		"newer migrations":  {with(good, env(newer)...), []string{"at migration 9999", "a newer program"}},
		"another keyset":    {with(good, env(sealed)...), []string{"CONNECT_KEYSET_FILE", "not the one that this database's credentials are made with"}},
		"Redis down":        {with(good, "CONNECT_LIMITER_URL=redis://u:hush@127.0.0.1:1"), []string{"CONNECT_LIMITER_URL", "connection refused"}},
		"port taken":        {with(good, "CONNECT_LISTEN="+taken.Addr().String()), []string{"CONNECT_LISTEN", taken.Addr().String(), "address already in use"}},
		"private port":      {with(good, "CONNECT_PRIVATE_LISTEN="+taken.Addr().String()), []string{"CONNECT_PRIVATE_LISTEN", "address already in use"}},
		"no such interface": {with(good, "CONNECT_LISTEN=192.0.2.1:0"), []string{"CONNECT_LISTEN", "192.0.2.1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, tt.env, statusFailed, tt.says, "serve")
		})
	}
}

// A variable that nobody knows is told, since it may be a misspelt one.
func TestServeWarnsOfUnknownVariables(t *testing.T) {
	t.Parallel()
	s := start(t, with(allSettings(t, pgtest.New(t)), "CONNECT_BASE_ULR=https://x"))
	if log := s.log.String(); !strings.Contains(log, "CONNECT_BASE_ULR") || strings.Contains(log, `"CONNECT_BASE_URL"`) {
		t.Errorf("the log: %s", log)
	}
}

// The operator API is on the private listener while there is a token, and needs it.
func TestServeOperatorAPI(t *testing.T) {
	t.Parallel()
	const token = operatorToken
	s := start(t, allSettings(t, pgtest.New(t)), "--operator-token", token)
	create := func(token string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.private+"/operator/v1/users",
			strings.NewReader(`{"email":"ada@example.com","timezone":"UTC","registered_on":"2026-01-31"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	if status := create(token[1:]); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	if status := create(token); status != http.StatusCreated {
		t.Errorf("with the token: %d", status)
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log holds the token")
	}
}
