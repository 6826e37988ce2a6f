//go:build check

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // a driver, as a partner has one
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/tools/txtar"

	"connect-svc/gen/sandboxapi"
	"connect-svc/gen/sdk"
	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/connect/pgstore"
	"connect.invalid/connect-go/examples/webhooks"
	"connect.invalid/connect-go/webhook"
)

// The receivers that the SDKs have as examples take what the service sends, each event once, and nothing else. The official
// libraries of Standard Webhooks and the SDKs verify each other's signatures, and the service's.
func TestReceivers(t *testing.T) {
	t.Parallel()
	r := start(t)
	examples := compileReceivers(t)
	var sent []sandboxapi.Webhook
	for _, receiver := range []struct {
		name  string
		begin func(t *testing.T, database string) (address string)
	}{
		{"net-http", r.goReceiver},
		{"express", func(t *testing.T, database string) string { return r.nodeReceiver(t, examples, "express.js", database) }},
		{"hono", func(t *testing.T, database string) string { return r.nodeReceiver(t, examples, "hono.js", database) }},
	} {
		t.Run(receiver.name, func(t *testing.T) {
			database := r.newDatabase(t)
			sent = append(sent, r.receives(t, receiver.begin(t, database), database))
		})
	}
	t.Run("the work, in TypeScript", func(t *testing.T) {
		tests := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "receivers.test.js")
		tests.Dir = examples
		tests.Env = append(os.Environ(), "DATABASE_URL="+r.newDatabase(t), "CONNECT_WEBHOOK_SECRET="+r.described.Client.WebhookSecret, "SENT="+encode(t, sent))
		if output := succeed(t, tests); !strings.Contains(string(output), "pass 3\n") {
			t.Errorf("%s", output)
		}
	})
	t.Run("the work, in Go", func(t *testing.T) { testGoWorker(t, r.newDatabase(t)) })
}

// compileReceivers compiles the examples of the TypeScript SDK, as they are handed out, and the test beside them.
func compileReceivers(t *testing.T) string {
	t.Helper()
	installed := strings.TrimSpace(string(succeed(t, exec.CommandContext(t.Context(), "../../../.ci/npm", "testdata/receivers"))))
	folder := t.TempDir()
	source, modules := filepath.Join(folder, "source"), filepath.Join(folder, "node_modules")
	files := map[string][]byte{"package.json": []byte(`{"type":"module"}`)}
	for _, f := range txtar.Parse(sdk.TypeScript).Files {
		name := strings.TrimPrefix(f.Name, "package/")
		files["node_modules/connect-svc-sdk/"+name] = f.Data
		if example, is := strings.CutPrefix(name, "examples/"); is {
			files["source/"+example] = f.Data
		}
	}
	test, err := os.ReadFile("testdata/receivers/receivers.test.ts")
	if err != nil {
		t.Fatal(err)
	}
	files["source/receivers.test.ts"] = test
	for name, content := range files {
		target := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	packages, err := os.ReadDir(filepath.Join(installed, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range packages {
		if err := os.Symlink(filepath.Join(installed, "node_modules", entry.Name()), filepath.Join(modules, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	compiled := filepath.Join(folder, "compiled")
	sources, err := filepath.Glob(filepath.Join(source, "*.ts"))
	if err != nil || len(sources) != 4 {
		t.Fatalf("the sources are %v, %v", sources, err)
	}
	succeed(t, exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "tsc"), append(sources, "--outDir", compiled, "--rootDir", source,
		"--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--target", "es2023", "--module", "nodenext",
		"--types", "node", "--typeRoots", filepath.Join(modules, "@types"), "--skipLibCheck")...))
	return compiled
}

// newDatabase is an empty one beside the sandbox's own.
func (r *running) newDatabase(t *testing.T) string {
	t.Helper()
	db := openDatabase(t, r.database.URL())
	name := "partner_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := db.ExecContext(t.Context(), "create database "+name); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(r.database.URL())
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + name
	return address.String()
}

func openDatabase(t *testing.T, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (r *running) goReceiver(t *testing.T, database string) string {
	db := openDatabase(t, database)
	if _, err := db.ExecContext(t.Context(), webhooks.Schema); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks", &webhooks.Receiver{DB: db, Secret: r.described.Client.WebhookSecret})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func (r *running) nodeReceiver(t *testing.T, folder, program, database string) string {
	t.Helper()
	receiver := exec.Command("node", program)
	receiver.Dir = folder
	receiver.Env = append(os.Environ(), "PORT=0", "DATABASE_URL="+database, "CONNECT_WEBHOOK_SECRET="+r.described.Client.WebhookSecret, "NODE_ENV=production")
	var complaint bytes.Buffer
	receiver.Stderr = &complaint
	printed, err := receiver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = receiver.Process.Kill()
		_ = receiver.Wait() // of a signal
	})
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		if port := regexp.MustCompile(`port: (\d+)`).FindStringSubmatch(lines.Text()); port != nil {
			return "http://127.0.0.1:" + port[1]
		}
	}
	_ = receiver.Wait()
	t.Fatalf("%s does not listen\n%s", program, complaint.String())
	return ""
}

// receives has the service send an event to a receiver, and then sends what it must refuse, or ignore.
func (r *running) receives(t *testing.T, address, database string) sandboxapi.Webhook {
	t.Helper()
	behind, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(behind)) // the service wants TLS
	front.TLS = &tls.Config{Certificates: []tls.Certificate{r.authority.Server}, MinVersion: tls.VersionTLS12}
	front.Config.ErrorLog = log.New(t.Output(), "", 0)
	front.StartTLS()
	t.Cleanup(front.Close)
	want[nothing](t, r, 204, "PUT", "/sandbox/webhook", encode(t, sandboxapi.WebhookAddress{Url: front.URL + "/webhooks"}))

	p := r.newPartner(t, sandboxapi.KindNew)
	grant := p.connect(t).GrantID
	want[nothing](t, r, 204, "DELETE", "/sandbox/users/"+p.user.String()+"/connections/"+p.described.Client.ClientId.String(), "")
	sent := r.webhook(t, grant, func(sent sandboxapi.Webhook) bool { return len(sent.Tries) > 0 })
	if status := sent.Tries[0].Status; status == nil || *status != 204 {
		t.Fatalf("the service was answered %+v", sent.Tries[0])
	}
	genuine := http.Header{}
	for name, value := range sent.Headers {
		genuine.Set(name, value)
	}
	official, err := standardwebhooks.NewWebhook(r.described.Client.WebhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := official.Verify([]byte(sent.Body), genuine); err != nil {
		t.Errorf("the official library says: %v", err)
	}

	signed := func(id string, at time.Time, body, secret string) http.Header {
		key, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := key.Sign(id, at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signature}}
	}
	secret, now := r.described.Client.WebhookSecret, time.Now()
	const other, later = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", `{"type":"goal.reached","data":{"text":"a\u0000ä"}}`
	for name, call := range map[string]struct {
		header http.Header
		body   string
		want   int
	}{
		"the same again":       {genuine, sent.Body, 204},
		"again, signed anew":   {signed(sent.Id, now, sent.Body, secret), sent.Body, 204},
		"of a later type":      {signed("msg_later", now, later, secret), later, 204},
		"another body":         {genuine, strings.Replace(sent.Body, `"timestamp"`, ` "timestamp"`, 1), 401},
		"no body":              {genuine, "", 401},
		"no headers":           {http.Header{}, sent.Body, 401},
		"somebody's secret":    {signed("msg_2", now, sent.Body, other), sent.Body, 401},
		"signed ten years ago": {signed("msg_3", now.AddDate(-10, 0, 0), sent.Body, secret), sent.Body, 401},
		"far too large":        {signed("msg_4", now, strings.Repeat(" ", 65<<10), secret), strings.Repeat(" ", 65<<10), 413},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/webhooks", strings.NewReader(call.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = call.header.Clone()
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != call.want {
			t.Errorf("%s: %d, want %d", name, response.StatusCode, call.want)
		}
	}
	if diff := cmp.Diff(map[string]any{sent.Id: decoded(t, sent.Body), "msg_later": decoded(t, later)}, inboxOf(t, database)); diff != "" {
		t.Errorf("the inbox (-want +got):\n%s", diff)
	}
	return sent
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// inboxOf is what a receiver has put aside, by id.
func inboxOf(t *testing.T, database string) map[string]any {
	t.Helper()
	rows, err := openDatabase(t, database).QueryContext(t.Context(), "select id, event from webhook_inbox")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]any{}
	for rows.Next() {
		var id, event string
		if err := rows.Scan(&id, &event); err != nil {
			t.Fatal(err)
		}
		found[id] = decoded(t, event)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// The worker of the Go example takes each event once, and ignores what is older than the connection.
func testGoWorker(t *testing.T, database string) {
	ctx, db := t.Context(), openDatabase(t, database)
	if _, err := db.ExecContext(ctx, webhooks.Schema+pgstore.Schema); err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.New(db, bytes.Repeat([]byte("k"), pgstore.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	client, err := connect.New(connect.Config{
		BaseURL: "https://connect.invalid", ClientID: "id", ClientSecret: "secret", CallbackURL: "https://partner.example/callback",
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, Store: store,
	})
	if err != nil {
		t.Fatal(err)
	}
	grant := uuid.New()
	lock, err := store.Lock(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Save(ctx, connect.Connection{GrantID: grant, Version: "10", State: connect.StateActive, RefreshToken: "r"}); err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	var read []int64 // versions of the events that were read
	worker := webhooks.Worker{DB: db, Store: store, Client: client, Changed: func(_ context.Context, user string, event webhook.ActivityUpdated) error {
		if read = append(read, event.Version); user != key {
			t.Errorf("%q is no user", user)
		}
		return nil
	}}
	put := func(id, kind, version, rest string) {
		t.Helper()
		if _, err := db.ExecContext(ctx, "insert into webhook_inbox (id, event) values ($1, $2)", id,
			`{"type":"`+kind+`","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":"`+grant.String()+`","connection_version":"`+version+`",`+rest+`}}`); err != nil {
			t.Fatal(err)
		}
	}
	const days, reason = `"datasets":["daily_steps"],"from":"2026-11-20","to":"2026-11-21"`, `"reason":"user_disconnected"`
	state := func(works int) connect.State {
		t.Helper()
		for range works {
			if worked, err := worker.Next(ctx); err != nil || !worked {
				t.Fatalf("%t, %v", worked, err)
			}
		}
		if worked, err := worker.Next(ctx); err != nil || worked {
			t.Fatalf("more than %d: %t, %v", works, worked, err)
		}
		held, err := store.Load(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return held.State
	}
	put("older", "activity.updated", "9", days)
	put("same", "activity.updated", "10", days)
	put("late", "connection.revoked", "9", reason)
	put("unknown", "goal.reached", "10", days)
	if got := state(4); got != connect.StateActive || !cmp.Equal(read, []int64{10}) {
		t.Errorf("%s, read %v", got, read)
	}
	// An event that fails is tried eight times, and is dead then. So is one that ended the process each time.
	failing := errors.New("the database of the readings is full")
	worker.Changed = func(context.Context, string, webhook.ActivityUpdated) error { return failing }
	put("fails", "activity.updated", "10", days)
	for try := range 8 {
		if worked, err := worker.Next(ctx); !worked || !errors.Is(err, failing) || strings.Contains(err.Error(), "is dead") != (try == 7) {
			t.Errorf("try %d: %t, %v", try, worked, err)
		}
		if worked, err := worker.Next(ctx); worked || err != nil {
			t.Errorf("after try %d it is due at once: %t, %v", try, worked, err)
		}
		if _, err := db.ExecContext(ctx, "update webhook_inbox set due_at = now() where id = 'fails'"); err != nil {
			t.Fatal(err)
		}
	}
	put("kills", "activity.updated", "10", days)
	if _, err := db.ExecContext(ctx, "update webhook_inbox set tries = 8 where id = 'kills'"); err != nil {
		t.Fatal(err)
	}
	if worked, err := worker.Next(ctx); !worked || err == nil || !strings.Contains(err.Error(), "kills is dead") {
		t.Errorf("what ends the process: %t, %v", worked, err)
	}
	var dead string
	if err := db.QueryRowContext(ctx, "select string_agg(id || ': ' || error, ', ' order by id) from webhook_inbox where dead_at is not null").Scan(&dead); err != nil ||
		dead != "fails: the database of the readings is full, kills: the process ended in the middle of the last try" {
		t.Errorf("dead are %q, %v", dead, err)
	}

	put("ended", "connection.revoked", "10", reason)
	put("after", "activity.updated", "11", days)
	if got := state(2); got != connect.StateEnded || !cmp.Equal(read, []int64{10}) {
		t.Errorf("%s, read %v", got, read)
	}
}
