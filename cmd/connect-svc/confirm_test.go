package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
)

// atTerminal is call where somebody at a terminal gives an answer.
func atTerminal(ctx context.Context, env []string, answer string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	p := &program{ctx, args, env, strings.NewReader(answer), &stdout, &stderr, true, nil}
	status := p.run()
	return outcome{status, stdout.String(), stderr.String()}
}

// A destructive command says what it destroys, and asks or takes --yes.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	company := db.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	user := db.User(t)
	connected(t, db, user, company)
	succeed(t, env(db), "user_id,date,steps\n"+user.ID.String()+",2026-01-02,100\n", "import", "daily-steps", "-")
	succeed(t, env(db), "", "adjust", "steps", "--user", user.ID.String(), "--date", "2026-01-02", "--delta", "-30", "--note", "n")
	correction := pgtest.Value[string](t, db, "select correction_id::text from step_corrections")
	whole := func() string {
		return pgtest.Value[string](t, db, `select (select string_agg(c::text, ' ') from clients c) || (select count(*) from step_corrections) || (select count(*) from daily_steps) ||
			(select string_agg(u::text, ' ') from users u) || (select string_agg(c::text, ' ') from connections c) ||
			(select count(*) from goose_db_version) || (select count(*) from webhook_endpoints)`)
	}
	db.Webhook(t, company.ID)
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		t.Fatal(err)
	}
	before := whole()
	for _, test := range []struct {
		args     []string
		says     []string
		scripted bool // goes on without a terminal
	}{
		{[]string{"client", "offboard", company.ID.String()}, []string{"Ride Club", company.ID.String(), "1 connection"}, false},
		{[]string{"connection", "disconnect", "--user", user.ID.String(), "--client", company.ID.String()},
			[]string{"Ride Club", user.Email, user.ID.String(), company.ID.String()}, false},
		{[]string{"client", "disable", company.ID.String()}, []string{"Ride Club", company.ID.String(), "0 links and 0 sessions"}, true},
		{[]string{"client", "suspend", company.ID.String()}, []string{"Ride Club", company.ID.String(), "0 links and 0 sessions"}, false},
		{[]string{"client", "resume", company.ID.String(), "--keyset-file", keyset}, []string{"Ride Club", company.ID.String(), "new secrets"}, false},
		{[]string{"client", "rotate-secret", company.ID.String()}, []string{"Ride Club", company.ID.String(), "at once"}, true},
		{[]string{"client", "webhook", "remove", company.ID.String()}, []string{"Ride Club", company.ID.String(), "0 events"}, true},
		{[]string{"user", "delete", user.ID.String()}, []string{"1 connection ", user.Email, user.ID.String(), "activity"}, false},
		{[]string{"remove", "adjustment", "--user", user.ID.String(), "--id", correction},
			[]string{correction, user.Email, "-30 of daily_steps on 2026-01-02 (70 → 100, 0 partners can read this day)"}, false},
		{[]string{"remove", "steps", "--user", user.ID.String(), "--date", "2026-01-02"}, []string{"2026-01-02", user.Email, ": 1 recorded day"}, false},
		{[]string{"remove", "steps", "--user", user.ID.String(), "--date", "2026-01-03"}, []string{"2026-01-03", user.Email, ": 0 recorded days"}, false},
		{[]string{"remove", "ride", "--user", user.ID.String(), "--source-id", "r1"}, []string{"r1", user.Email, ": 0 recorded rides"}, false},
		{[]string{"migrate", "down"}, []string{".sql", "data"}, false},
	} {
		t.Run(strings.Join(test.args[:2], " "), func(t *testing.T) {
			if !test.scripted {
				refuse(t, env(db), statusUsage, append(test.says, "this will", "--yes"), test.args...)
			}
			for _, answer := range []string{"no\n", "\n", "y\n", ""} {
				got := atTerminal(t.Context(), env(db), answer, test.args...)
				if got.status != statusFailed || got.stdout != "" || !strings.Contains(got.stderr, "nothing was done") {
					t.Errorf("answer %q: status %d, stdout %q, stderr %q", answer, got.status, got.stdout, got.stderr)
				}
				for _, words := range append(test.says, "This will ") {
					if !strings.Contains(got.stderr, words) {
						t.Errorf("the question %q does not say %q", got.stderr, words)
					}
				}
			}
			if whole() != before {
				t.Error("something was done")
			}
		})
	}

	if got := call(t, env(db), "", "client", "rotate-secret", company.ID.String(), "--overlap", "1h"); got.status != statusDone {
		t.Errorf("with an overlap nothing stops, and it asks: %+v", got)
	}
	before = whole()
	got := atTerminal(t.Context(), env(db), "yes\n", "client", "offboard", company.ID.String())
	if got.status != statusDone || !strings.Contains(got.stdout, "is offboarded") || whole() == before {
		t.Errorf("after yes: %+v", got)
	}
}

// Ctrl-C at the question ends the command.
func TestConfirmationInterrupted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	company := db.Client(t)
	ctx, stop := context.WithCancel(t.Context())
	stderr := &interruptOn{words: "Type yes", stop: stop}
	var stdout bytes.Buffer
	silent, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	p := &program{ctx, []string{"client", "offboard", company.ID.String()}, env(db), silent, &stdout, stderr, true, nil}
	if status := p.run(); status != statusFailed || !strings.HasSuffix(stderr.String(), "connect-svc: stopped\n") {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
	if status := pgtest.Value[string](t, db, "select status from clients"); status != "active" {
		t.Errorf("the client is %s", status)
	}
}

// interruptOn calls stop when words are written.
type interruptOn struct {
	bytes.Buffer
	words string
	stop  func()
}

func (w *interruptOn) Write(text []byte) (int, error) {
	n, err := w.Buffer.Write(text)
	if strings.Contains(w.String(), w.words) {
		w.stop()
	}
	return n, err
}
