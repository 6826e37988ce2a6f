package sdk_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"connect.invalid/connect-go/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// The TypeScript SDK, packed and installed as npm does it, plays the scenarios of TestGoSDK against the service. Then the
// first program of its README runs as it stands there.
func TestTypeScriptSDK(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "../../../../.ci/typescript", folder).CombinedOutput(); err != nil {
		t.Fatalf("the package cannot be made: %v\n%s", err, output)
	}
	e := e2e.New(t)
	control := newControl(t, e)
	database := pgtest.NewEmpty(t).URL
	connections := connectionsOfGo(t, database)
	trusted := authority(t, e)
	environment := append(os.Environ(), "CONTROL_URL="+control.url, "NODE_EXTRA_CA_CERTS="+trusted, "DATABASE_URL="+database,
		"CERTIFICATES="+certificates(t, trusted))

	compiled, err := filepath.Glob(filepath.Join(folder, "compiled", "*.test.js"))
	if err != nil || len(compiled) != 10 {
		t.Fatalf("the tests are %v, %v", compiled, err)
	}
	// One after the other: they count what the one service sees.
	tests := exec.CommandContext(t.Context(), "node", append([]string{"--test", "--test-concurrency=1", "--test-reporter=spec"}, compiled...)...)
	tests.Dir, tests.Env = folder, environment
	var output bytes.Buffer
	tests.Stdout, tests.Stderr = &output, &output
	if err := control.while(tests.Run); err != nil {
		t.Fatalf("%v\n%s", err, output.String())
	}
	for name := range sdkScenarios {
		for _, kind := range []string{"memory", "PostgreSQL"} {
			if !strings.Contains(output.String(), "✔ "+kind+"/"+name+" ") {
				t.Errorf("TypeScript does not play the scenario %q with the store %s", name, kind)
			}
		}
	}
	connections.check(t, "typescript")

	u := newSDKUser(t, e, connect.NewMemoryStore())
	example := exec.CommandContext(t.Context(), "node", "compiled/readme1.js")
	example.Dir = folder
	example.Env = append(environment, "PORT=0", "CONNECT_BASE_URL="+u.Base, "CONNECT_CLIENT_ID="+u.Partner.ID.String(),
		"CONNECT_CLIENT_SECRET="+u.Partner.Secret, "CONNECT_CALLBACK_URL="+u.Partner.CallbackURL)
	u.playReadme(t, example)
	example = exec.CommandContext(t.Context(), "node", "compiled/readme1.js")
	example.Dir = folder
	endReadme(t, example)
}

// shared is a store in PostgreSQL that another language uses, too.
type shared struct {
	store connect.Store
	saved map[string]connect.Connection // by what follows "from-go" and "from-LANGUAGE" in the key
	lock  connect.Lock                  // of the key "held-by-go"
}

func connectionsOfGo(t *testing.T, database string) shared {
	t.Helper()
	live := connect.Connection{
		GrantID: uuid.MustParse("7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4"), Version: "3", HistoryFrom: connect.Day(2026, time.November, 20),
		Scope: "daily_steps:read", State: connect.StateActive, AccessToken: "svca_a", RefreshToken: "svcr2_r",
		UseUntil: time.Date(2026, time.November, 21, 10, 0, 0, 0, time.UTC),
	}
	over := connect.Connection{GrantID: live.GrantID, Version: "4", HistoryFrom: live.HistoryFrom, State: connect.StateEnded}
	former := live
	former.FormerGrants = []uuid.UUID{uuid.MustParse("1c9e6679-7425-40de-944b-e07fc1f90ae7")}
	s := shared{store: newPGStore(t, database), saved: map[string]connect.Connection{"": live, "-over": over, "-former": former}}
	for name, c := range s.saved {
		lock, err := s.store.Lock(t.Context(), "from-go"+name)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Save(t.Context(), c); err != nil {
			t.Error(err)
		}
		lock.Unlock()
	}
	var err error
	if s.lock, err = s.store.Lock(t.Context(), "held-by-go"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.lock.Unlock)
	if _, err := s.store.(connect.Pacer).Pace(t.Context(), "given by Go", 2, time.Minute, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	return s
}

// check reads what the other language saved: the same.
func (s shared) check(t *testing.T, language string) {
	t.Helper()
	for name, want := range s.saved {
		got, err := s.store.Load(t.Context(), "from-"+language+name)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("from-%s%s: %v\n%s", language, name, err, diff)
		}
	}
}

// playReadme connects a user with the program of the README, and reads. The program outlives a read that fails in the middle of a page.
func (u *sdkUser) playReadme(t *testing.T, example *exec.Cmd) {
	t.Helper()
	get := startReadme(t, example)
	begun, _ := get("/connect")
	if begun == nil {
		t.Fatal("/connect sends the browser nowhere")
	}
	get("/callback?" + u.Authorize(t, begun.String()).Encode())
	for range 4 { // as often as the client tries
		u.Faults.Plant("cycling-activities", e2e.FaultUnavailable)
	}
	if _, text := get("/"); !strings.Contains(text, "data_unavailable") {
		t.Errorf("with rides that cannot be read the page says %q", text)
	}
	if _, text := get("/"); !strings.Contains(text, ": 4321 steps\n") || strings.Count(text, " m\n") != 3 {
		t.Errorf("the page says %q", text)
	}
	if err := example.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = example.Wait() // of a signal
}

// endReadme has the program of the README end as a deployment ends it, in the middle of a refresh, which it does not cut off.
func endReadme(t *testing.T, example *exec.Cmd) {
	t.Helper()
	refreshes, mayAnswer, cutOff := make(chan struct{}), make(chan struct{}), false
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lifetime := 0 // so that the first read refreshes
		switch {
		case r.URL.Path != "/oauth/token":
			_, _ = io.WriteString(w, `{"data":[],"meta":{"next_cursor":null}}`)
			return
		case r.PostFormValue("grant_type") == "refresh_token":
			lifetime = 300
			close(refreshes)
			select {
			case <-mayAnswer:
			case <-r.Context().Done():
				cutOff = true
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"grant_id":"7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4","history_from":"2026-11-20","connection_version":"1","token_type":"Bearer",
			"access_token":"svca_a","refresh_token":"svcr2_r","expires_in":%d,"scope":"daily_steps:read"}`, lifetime)
	}))
	defer service.Close()
	trusted := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: service.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	example.Env = append(os.Environ(), "PORT=0", "NO_PROXY=127.0.0.1", "SSL_CERT_FILE="+trusted, "NODE_EXTRA_CA_CERTS="+trusted, "CONNECT_BASE_URL="+service.URL,
		"CONNECT_CLIENT_ID=id", "CONNECT_CLIENT_SECRET=secret", "CONNECT_CALLBACK_URL=https://partner.example/callback")
	get := startReadme(t, example)
	begun, _ := get("/connect")
	get("/callback?code=c&state=" + begun.Query().Get("state"))
	go get("/")
	<-refreshes
	if err := example.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- example.Wait() }()
	select {
	case err := <-ended:
		t.Errorf("the program ends in the middle of a refresh: %v", err)
	case <-time.After(500 * time.Millisecond):
		close(mayAnswer)
		if err := <-ended; err != nil {
			t.Errorf("the program ends with: %v", err)
		}
	}
	service.Close()
	if cutOff {
		t.Error("the refresh was cut off")
	}
}

// startReadme starts the program of the README. get asks it for a page.
func startReadme(t *testing.T, example *exec.Cmd) (get func(path string) (location *url.URL, body string)) {
	t.Helper()
	printed, err := example.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var failures bytes.Buffer
	example.Stderr = &failures
	if err := example.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = example.Process.Kill() })
	line, err := bufio.NewReader(printed).ReadString('\n')
	port := regexp.MustCompile(`port: ([0-9]+)`).FindStringSubmatch(line)
	if port == nil {
		_ = example.Process.Kill()
		_ = example.Wait()
		t.Fatalf("the program of the README says %q, %v\n%s", line, err, failures.String())
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(path string) (location *url.URL, body string) {
		answer, err := browser.Get("http://127.0.0.1:" + port[1] + path)
		if err != nil {
			return nil, err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		location, _ = answer.Location()
		if err != nil {
			return location, err.Error()
		}
		return location, string(text)
	}
}

// control lets another program play the partner's user and plant faults. The goroutine of the test carries out its requests, in
// while.
type control struct {
	url  string
	work chan func()
}

// while does what is asked for until run returns.
func (c *control) while(run func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	for {
		select {
		case act := <-c.work:
			act()
		case err := <-ended:
			return err
		}
	}
}

func newControl(t *testing.T, e *e2e.Service) *control {
	t.Helper()
	c := &control{work: make(chan func())}
	routes := http.NewServeMux()
	handle(t, c, routes, "/partner", func(asked struct{ RequestsPerMinute, Burst int }) map[string]string {
		u := newSDKUser(t, e, connect.NewMemoryStore(), func(p *pgtest.Client) {
			if asked.RequestsPerMinute > 0 {
				p.RequestsPerMinute, p.Burst = asked.RequestsPerMinute, asked.Burst
			}
		})
		return map[string]string{
			"baseUrl": e.Base, "clientId": u.Partner.ID.String(), "clientSecret": u.Partner.Secret,
			"callbackUrl": u.Partner.CallbackURL, "email": u.User.Email,
		}
	})
	handle(t, c, routes, "/authorize", func(asked struct{ URL, Email string }) map[string]string {
		own := *e
		own.User.Email = asked.Email
		return map[string]string{"query": own.Authorize(t, asked.URL).Encode()}
	})
	handle(t, c, routes, "/advance", func(asked struct{ Seconds float64 }) struct{} {
		e.DB.Clock.Advance(time.Duration(asked.Seconds * float64(time.Second)))
		return struct{}{}
	})
	handle(t, c, routes, "/plant", func(asked e2e.Fault) struct{} {
		e.Faults.Plant(asked.Path, asked.Kind)
		return struct{}{}
	})
	handle(t, c, routes, "/seen", func(asked struct{ End string }) map[string]int {
		return map[string]int{"count": e.Faults.Seen(asked.End)}
	})
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// handle answers what act returns for what was asked.
func handle[In, Out any](t *testing.T, c *control, routes *http.ServeMux, path string, act func(In) Out) {
	routes.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		var asked In
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := make(chan Out, 1)
		select {
		case c.work <- func() { answer <- act(asked) }:
		case <-t.Context().Done():
			return
		}
		select {
		case out := <-answer:
			_ = json.NewEncoder(w).Encode(out)
		case <-t.Context().Done():
		}
	})
}

// authority is a file with the certificate of the service, for programs to trust.
func authority(t *testing.T, e *e2e.Service) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// certificates makes the three of unsent.test.ts, and adds those that are trusted to the file.
func certificates(t *testing.T, trusted string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	authorities, err := os.ReadFile(trusted)
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]time.Time{"good": time.Now().Add(time.Hour), "expired": time.Now().Add(-time.Hour), "stranger": time.Now().Add(time.Hour)} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end,
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		keyDER, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if name != "stranger" {
			authorities = append(authorities, cert...)
		}
		for part, text := range map[string][]byte{"cert": cert, "key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
			if err := os.WriteFile(filepath.Join(folder, name+"-"+part+".pem"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(trusted, authorities, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}
