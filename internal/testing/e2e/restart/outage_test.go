//go:build faults

package restart_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/logtest"
)

var outage = flag.Duration("outage", time.Minute, "how long PostgreSQL is away behind each proxy")

// connectionsOfSDK is how many connections each of the two SDKs refreshes.
const connectionsOfSDK = 100

// round counts what became of the connections of one SDK when each was refreshed once.
type round struct{ Refreshed, Refused, Lost int }

// refresher refreshes all its connections once.
type refresher func() (round, error)

// PostgreSQL is away for a minute behind two servers and each proxy, while 200 connections are refreshed with the SDKs all the time.
// None is lost: afterwards all still refresh. No refresh runs at the moment when PostgreSQL stops: what becomes of it nobody knows
// (specification 5.4).
func TestOutage(t *testing.T) {
	for name, startProxy := range map[string]func(*testing.T, rolling) string{"HAProxy": startHAProxy, "nginx": startNginx} {
		t.Run(name, func(t *testing.T) { testOutage(t, startProxy) })
	}
}

func testOutage(t *testing.T, startProxy func(*testing.T, rolling) string) {
	database := newRestartable(t)
	r, log := rolling{dir: t.TempDir()}, new(logtest.Buffer)
	var config app.Config
	r.e = e2e.NewOn(t, database.db, func(c *app.Config) {
		config = *c
		config.ReadyListen, config.Limits, config.Logger = "127.0.0.1:0", work.DefaultLimits, telemetry.NewLogger(log, slog.LevelWarn)
	})
	for n := range r.servers {
		r.servers[n] = &rollingServer{config: config}
		r.servers[n].start(t)
		defer r.servers[n].end(t)
	}
	now := time.Now()
	pair := edgetest.Certificate(t, "localhost", now.Add(-time.Hour), now.Add(time.Hour))
	roots := e2e.WriteCertificate(t, r.dir, pair)
	_, port, _ := net.SplitHostPort(startProxy(t, r))
	base := "https://localhost:" + port

	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	sdks := map[string]refresher{"Go": r.goSDK(t, base, transport), "TypeScript": r.typeScriptSDK(t, base)}
	all := func(what string) map[string]round {
		t.Helper()
		var mu sync.Mutex
		var both sync.WaitGroup
		rounds := map[string]round{}
		for sdk, refresh := range sdks {
			both.Go(func() {
				got, err := refresh()
				if err != nil {
					t.Errorf("%s, %s: %v", what, sdk, err)
				}
				mu.Lock()
				rounds[sdk] = got
				mu.Unlock()
			})
		}
		both.Wait()
		return rounds
	}
	for sdk, got := range all("before") {
		if got.Refreshed != connectionsOfSDK {
			t.Fatalf("before, %s: %+v", sdk, got)
		}
	}

	stopped := time.Now()
	if err := database.running.Stop(); err != nil {
		t.Fatal(err)
	}
	var back atomic.Bool
	timer := time.AfterFunc(*outage, func() {
		database.start(t)
		database.Open(t, database.running.URL())
		back.Store(true)
	})
	defer timer.Stop()
	refused := 0
	for !back.Load() && !t.Failed() {
		for sdk, got := range all("during the outage") {
			refused += got.Refused
			if got.Lost > 0 {
				t.Errorf("during the outage, %s: %+v", sdk, got)
			}
		}
	}
	away := time.Since(stopped).Round(time.Second)
	kept := 0
	for sdk, got := range all("afterwards") {
		kept += got.Refreshed
		if got.Refreshed != connectionsOfSDK {
			t.Errorf("afterwards, %s: %+v", sdk, got)
		}
	}
	t.Logf("PostgreSQL was away for %s; all answered after %s: %d calls were refused as not attempted; %d of %d connections still refresh",
		*outage, away, refused, kept, 2*connectionsOfSDK)
	if t.Failed() {
		t.Log("the servers say:\n" + log.String())
	}
}

// connections opens what one SDK refreshes.
func (r rolling) connections(t *testing.T) map[string]oauth.Tokens {
	t.Helper()
	all := map[string]oauth.Tokens{}
	for n := range connectionsOfSDK {
		_, all[fmt.Sprint("member-", n)] = r.e.NewConnection(t, r.e.Partner)
	}
	return all
}

func (r rolling) goSDK(t *testing.T, base string, transport http.RoundTripper) refresher {
	t.Helper()
	store, all := connect.NewMemoryStore(), r.connections(t)
	for key, tokens := range all {
		lock, err := store.Lock(t.Context(), key)
		if err == nil {
			err = lock.Save(t.Context(), connect.Connection{
				GrantID: tokens.GrantID, Version: strconv.FormatInt(tokens.ConnectionVersion, 10), State: connect.StateActive, RefreshToken: tokens.RefreshToken,
			})
			lock.Unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	client, err := connect.New(connect.Config{
		BaseURL: base, ClientID: r.e.Partner.ID.String(), ClientSecret: r.e.Partner.Secret, CallbackURL: r.e.Partner.CallbackURL,
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, Store: store, HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() (got round, err error) {
		var mu sync.Mutex
		var together sync.WaitGroup
		for key := range all {
			together.Go(func() {
				_, err := client.Refresh(context.WithoutCancel(t.Context()), key)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					got.Refreshed++
				case errors.Is(err, connect.ErrReconnect):
					got.Lost++
				default:
					got.Refused++
				}
			})
		}
		together.Wait()
		return got, nil
	}
}

func (r rolling) typeScriptSDK(t *testing.T, base string) refresher {
	t.Helper()
	folder := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "../../../../.ci/typescript", folder).CombinedOutput(); err != nil {
		t.Fatalf("the package cannot be made: %v\n%s", err, output)
	}
	program, err := os.ReadFile(filepath.Join("testdata", "outage.mjs"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "outage.mjs"), program, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), "node", "outage.mjs")
	node.Dir, node.Stderr = folder, t.Output()
	node.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+filepath.Join(r.dir, "connect.pem"), "NODE_OPTIONS=--dns-result-order=ipv4first")
	in, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = node.Wait() // it ends with its input
	})
	connections := map[string]any{}
	for key, tokens := range r.connections(t) {
		connections[key] = map[string]any{
			"grantId": tokens.GrantID, "version": strconv.FormatInt(tokens.ConnectionVersion, 10), "state": "active", "refreshToken": tokens.RefreshToken,
		}
	}
	if err := json.NewEncoder(in).Encode(map[string]any{"connections": connections, "options": map[string]any{
		"baseUrl": base, "clientId": r.e.Partner.ID, "clientSecret": r.e.Partner.Secret, "callbackUrl": r.e.Partner.CallbackURL, "scopes": []string{"daily_steps:read"},
	}}); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	return func() (got round, err error) {
		if _, err := io.WriteString(in, "again\n"); err != nil {
			return got, err
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return got, err
		}
		return got, json.Unmarshal(line, &got)
	}
}
