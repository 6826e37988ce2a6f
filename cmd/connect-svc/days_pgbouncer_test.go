package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/testing/pgbouncertest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// newMovableBehind starts the service behind a PgBouncer, as docs/pgbouncer.ini sets it up but for settings.
func newMovableBehind(t *testing.T, connections int, settings ...string) (m *movable, bouncer pgbouncertest.Server) {
	t.Helper()
	m = newMovable(t, connections, func(m *movable) []string {
		bouncer = pgbouncertest.Start(t, "../../docs/pgbouncer.ini", m.old.URL(), settings...)
		m.lead(t, bouncer.URL)
		return []string{"CONNECT_OPERATOR_TOKEN=" + operatorToken}
	})
	return m, bouncer
}

// behindLines are the page "Move behind PgBouncer", as one text.
func behindLines(t *testing.T, m *movable, bouncer pgbouncertest.Server) string {
	t.Helper()
	port := func(address string) string {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return "port=" + parsed.Port()
	}
	lines := section(t, "Move behind PgBouncer", "docs/move.sh", "../../docs/move.sh", "postgres://old/connect", "'"+m.old.URL()+"'",
		"postgres://new/connect", "'"+m.replica.URL()+"'", "postgres://admin@pgbouncer:6432/pgbouncer", "'"+bouncer.Console+"'",
		"host=db.internal", port(m.old.URL()), "host=new.internal", port(m.replica.URL()), "/etc/pgbouncer/pgbouncer.ini", bouncer.Config)
	if len(lines) != 2 {
		t.Fatalf("the page has other commands: %q", lines)
	}
	return strings.Join(lines, "\n")
}

// newUser creates a user by the operator API, in a transaction.
func (m *movable) newUser(ctx context.Context) error {
	user := fmt.Sprintf(`{"email":"%s@example.com","timezone":"Europe/Berlin","registered_on":"2026-01-31"}`, uuid.NewString())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.private+"/operator/v1/users", strings.NewReader(user))
	if err != nil {
		return err
	}
	request.Header = http.Header{"Authorization": {"Bearer " + operatorToken}, "Content-Type": {"application/json"}}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%d %s", answer.StatusCode, body)
	}
	return err
}

// load reads and creates users again and again, until stop is called. It then returns how many reads and users there were. A read that fails fails
// the test, and failed gets what happened to users.
func (m *movable) load(t *testing.T, failed func(error)) (stop func() (reads, users int64)) {
	t.Helper()
	life, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var reads, users atomic.Int64
	all.Go(func() {
		for life.Err() == nil {
			if status, body := m.read(t); status != http.StatusOK {
				t.Errorf("a read: %d %s", status, body)
				return
			}
			reads.Add(1)
		}
	})
	all.Go(func() {
		for life.Err() == nil {
			if err := m.newUser(t.Context()); err != nil {
				failed(err)
				continue
			}
			users.Add(1)
		}
	})
	return func() (int64, int64) {
		end()
		all.Wait()
		return reads.Load(), users.Load()
	}
}

// The page "Move behind PgBouncer": refreshes, reads and transactions go on meanwhile, and all that was answered is at the new server.
func TestMoveBehindPgBouncer(t *testing.T) {
	t.Parallel()
	m, bouncer := newMovableBehind(t, 4)
	defer m.stop(t)
	lines := behindLines(t, m, bouncer)
	stop := m.refreshing(t)
	stopLoad := m.load(t, func(err error) { t.Errorf("a new user: %v", err) })
	// A transaction through PgBouncer that does not end moves nothing, and holds nothing either.
	behind := &pgtest.DB{URL: bouncer.URL}
	blocker, err := behind.Open(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := bashed(t, nil, lines); err == nil || !strings.Contains(out, "PgBouncer does not pause") || !strings.Contains(out, "nothing has changed") {
		t.Errorf("with a transaction that does not end: %v, %s", err, out)
	}
	if err := blocker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.newUser(t.Context()); err != nil {
		t.Errorf("after a move that failed: %v", err)
	}

	out := moved(t, lines)
	n, longest := stop()
	reads, users := stopLoad()
	t.Logf("%s%d refreshes, the longest took %s; %d reads, %d users", out, n, longest, reads, users)
	m.checkMoved(t, users+1)
}

// Without PAUSE a transaction fails during the move. Refreshes and reads go on. The move waits for the first transaction that fails.
func TestMoveBehindPgBouncerWithoutPause(t *testing.T) {
	t.Parallel()
	m, bouncer := newMovableBehind(t, 4)
	defer m.stop(t)
	seen := filepath.Join(t.TempDir(), "seen")
	lines := behindLines(t, m, bouncer)
	reload, arguments := "sed -i ", strings.Index(lines, ` "$console 'pause`)
	if arguments < 0 || !strings.Contains(lines, `"`+reload) {
		t.Fatalf("the page has other commands: %q", lines)
	}
	lines = strings.Replace(lines[:arguments], `"`+reload, `"until [ -e `+seen+` ]; do sleep 0.01; done; `+reload, 1)
	stop := m.refreshing(t)
	var once sync.Once
	stopLoad := m.load(t, func(err error) {
		if !strings.HasPrefix(err.Error(), "500 ") && !errors.Is(err, context.Canceled) {
			t.Errorf("a new user: %v", err)
		}
		once.Do(func() { bashDone(t, nil, "touch "+seen) })
	})
	moved(t, lines)
	stop()
	_, users := stopLoad()
	m.checkMoved(t, users)
	wait.Until(t, "a new user after the move", func() bool { return m.newUser(t.Context()) == nil })
}
