package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// movable is a service whose URL of the database is in a file.
type movable struct {
	old, replica *embedded.Server
	db           *pgtest.DB // of the old server
	partner      pgtest.Client
	connected    []oauth.Tokens
	tokens       []string // refresh tokens of these connections, as they are now
	file         string   // with the URL
	running      *exec.Cmd
	ended        <-chan struct{}
	*service
}

// newMovable starts the service with settings that depend on its databases; nil: none besides the usual ones.
func newMovable(t *testing.T, connections int, settings func(*movable) []string) *movable {
	t.Helper()
	pgtest.NotOnCluster(t, "the servers are the test's own")
	m := &movable{file: filepath.Join(t.TempDir(), "url")}
	var err error
	if m.old, err = embedded.Start(t.Context(), embedded.Config{Ephemeral: true, Limits: wait.Patient}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.old.Stop() })
	address := m.old.URL()
	if _, err := migrate.Apply(t.Context(), address, migrate.Up); err != nil {
		t.Fatal(err)
	}
	if m.replica, err = embedded.StartReplica(t.Context(), m.old, embedded.Config{Ephemeral: true, Limits: wait.Patient}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.replica.Stop() })
	m.db = &pgtest.DB{URL: address, URLs: []string{address}, Clock: new(clock.Clock)}
	m.db.Pool = m.db.Open(t)
	m.lead(t, address)
	env := slicesWithout(allSettings(t, m.db), "CONNECT_DATABASE_URL")
	keys, err := credential.LoadKeyring(settingOf(t, env, "CONNECT_KEYSET_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	m.partner = m.db.Client(t, func(c *pgtest.Client) { c.RequestsPerMinute = 1_000_000 })
	authority := oauth.New(m.db.Pool, keys, oauth.DefaultSettings)
	for range connections {
		tokens := edgetest.Connect(t, authority, m.partner, scope.All, m.db.User(t).ID)
		m.connected, m.tokens = append(m.connected, tokens), append(m.tokens, tokens.RefreshToken)
	}
	if settings != nil {
		env = with(env, settings(m)...)
	}
	m.running, m.service, m.ended = startProcess(t, with(env, "CONNECT_DATABASE_URL_FILE="+m.file))
	return m
}

// stop ends the service, before the context of the test does.
func (m *movable) stop(t *testing.T) {
	t.Helper()
	if err := m.running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	<-m.ended
	if err := m.running.Wait(); err != nil {
		t.Error(err)
	}
}

// lead writes the URL of the database into the file.
func (m *movable) lead(t *testing.T, address string) {
	t.Helper()
	if err := os.WriteFile(m.file, []byte(address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// refreshing refreshes each connection again and again, until stop is called. It then returns how many refreshes there were and the longest. A refresh
// that fails fails the test.
func (m *movable) refreshing(t *testing.T) (stop func() (n int64, longest time.Duration)) {
	t.Helper()
	life, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var count atomic.Int64
	longest := make([]time.Duration, len(m.tokens))
	for i := range m.tokens {
		all.Go(func() {
			for life.Err() == nil {
				began := time.Now()
				status, body, header := refreshed(t, m.public, m.partner, &m.tokens[i])
				longest[i] = max(longest[i], time.Since(began))
				if status != http.StatusOK {
					t.Errorf("a refresh: %d %s, Connect-Outcome %q", status, body, header.Get("Connect-Outcome"))
					return
				}
				count.Add(1)
			}
		})
	}
	wait.Until(t, "refreshes", func() bool { return count.Load() > int64(3*len(m.tokens)) })
	return func() (int64, time.Duration) {
		before := count.Load()
		wait.Until(t, "more refreshes", func() bool { return t.Failed() || count.Load() > before+int64(3*len(m.tokens)) })
		end()
		all.Wait()
		var most time.Duration
		for _, took := range longest {
			most = max(most, took)
		}
		return count.Load(), most
	}
}

// read reads the steps of the first connection's first day.
func (m *movable) read(t *testing.T) (status int, body string) {
	t.Helper()
	tokens := m.connected[0]
	day := tokens.HistoryFrom.Format(time.DateOnly)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://%s/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", m.public, tokens.GrantID, day, day), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func slicesWithout(env []string, name string) (rest []string) {
	for _, setting := range env {
		if !strings.HasPrefix(setting, name+"=") {
			rest = append(rest, setting)
		}
	}
	return rest
}

// The page "Move to another database server": partners refresh meanwhile, no refresh fails, and each connection goes on at the new server.
func TestMoveToAnotherServer(t *testing.T) {
	t.Parallel()
	m := newMovable(t, 4, nil)
	defer m.stop(t)
	lines := section(t, "Move to another database server", "docs/move.sh", "../../docs/move.sh", "postgres://old/connect", "'"+m.old.URL()+"'",
		"postgres://new/connect", "'"+m.replica.URL()+"'", "systemctl reload connect-svc", fmt.Sprintf("kill -HUP %d", m.running.Process.Pid))
	if len(lines) != 1 {
		t.Fatalf("the page has other commands: %q", lines)
	}
	stop := m.refreshing(t)
	// A transaction that does not end moves nothing.
	m.db.Exec(t, "create table in_the_way (n int)")
	blocker, err := m.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blocker.Exec(t.Context(), "insert into in_the_way values (1)"); err != nil {
		t.Fatal(err)
	}
	if out, err := bashed(t, nil, lines[0]); err == nil || !strings.Contains(out, "nothing has changed") {
		t.Errorf("with a transaction that does not end: %v, %s", err, out)
	}
	if err := blocker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	m.lead(t, m.replica.URL())
	out := moved(t, lines[0])
	replica := &pgtest.DB{URL: m.replica.URL(), URLs: []string{m.replica.URL()}, Clock: new(clock.Clock)}
	replica.Pool = replica.Open(t)
	const used = "select count(*) from pg_stat_activity where application_name = 'connect-svc' and client_port is not null and backend_type = 'client backend'"
	wait.Until(t, "the server uses the new database", func() bool { return pgtest.Value[int](t, replica, used) > 1 })
	n, longest := stop()
	t.Logf("%s%d refreshes, the longest took %s", out, n, longest.Round(time.Millisecond))
	m.checkMoved(t, 0)
}

// The servers are told of the new one when it has been promoted, however long that takes.
func TestMoveWaitsForThePromotion(t *testing.T) {
	t.Parallel()
	m := newMovable(t, 0, nil)
	defer m.stop(t)
	bashDone(t, nil, fmt.Sprintf(`psql -Xd '%s' -c "alter system set recovery_end_command = 'sleep 7'" -c 'select pg_reload_conf()'`, m.replica.URL()))
	out := moved(t, fmt.Sprintf(`../../docs/move.sh '%s' '%s' "psql -XAtd '%[2]s' -c 'select pg_is_in_recovery()'"`, m.old.URL(), m.replica.URL()))
	if !strings.Contains(out, "promotion has not ended") || !strings.Contains(out, "\nf\n") {
		t.Error(out)
	}
}

// A move that cannot be ends soon, lets requests go on, and leaves the old server as it was.
func TestMoveThatCannotBe(t *testing.T) {
	t.Parallel()
	m := newMovable(t, 0, nil)
	defer m.stop(t)
	const role = "create role reader; alter role reader set default_transaction_read_only = on; create role mover login password 'mover' in role pg_monitor; grant execute on function pg_reload_conf() to mover; " +
		"grant alter system on parameter default_transaction_read_only to mover; " +
		"create role blind login password 'blind'; grant execute on function pg_reload_conf(), pg_promote(boolean, integer) to blind; " +
		"grant alter system on parameter default_transaction_read_only to blind"
	m.db.Exec(t, role)
	as := func(address, user string) string {
		if user == "" {
			return address
		}
		return urlAs(t, &pgtest.DB{URL: address}, user, user)
	}
	wait.Until(t, "the replica has the role", func() bool {
		_, err := bashed(t, nil, "psql -Xd '"+as(m.replica.URL(), "mover")+"' -c 'select 1'")
		return err == nil
	})
	file := pgtest.Value[string](t, m.db, "show config_file")
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	database := pgtest.Value[string](t, m.db, "select quote_ident(current_database())")
	for name, test := range map[string]struct{ by, before, appended, says string }{
		"a role that may not promote":          {"mover", "select 1", "", "may not promote"},
		"a service that writes nevertheless":   {"", "alter role mover set default_transaction_read_only = off", "", "pg_db_role_setting"},
		"a database that writes nevertheless":  {"", "alter database " + database + " set default_transaction_read_only = off", "", "pg_db_role_setting"},
		"a configuration that cannot be read":  {"", "select 1", "\nthis is = no setting\n", "has not taken the setting"},
		"a server that is no replica any more": {"", "select 1", "", "is not a replica"},
		"a role that sees no transactions":     {"blind", "select 1", "", "cannot see the transactions"},
	} {
		m.db.Exec(t, test.before)
		if err := os.WriteFile(file, append(slices.Clip(config), test.appended...), 0o600); err != nil {
			t.Fatal(err)
		}
		acts, to := filepath.Join(t.TempDir(), "acts"), m.replica.URL()
		if test.says == "is not a replica" {
			to = m.old.URL()
		}
		out, err := bashed(t, []string{"ACTS=" + acts}, fmt.Sprintf("timeout 20 ../../docs/move.sh '%s' '%s' 'echo reload >>$ACTS' 'echo pause >>$ACTS' 'echo resume >>$ACTS'",
			as(m.old.URL(), test.by), as(to, strings.ReplaceAll(test.by, "blind", "")))) // it is the old server's transactions that count
		if err == nil || !strings.Contains(out, test.says) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
		if done, _ := os.ReadFile(acts); len(done) > 0 && string(done) != "pause\nresume\n" {
			t.Errorf("%s: what was done: %q", name, done)
		}
		if err := os.WriteFile(file, config, 0o600); err != nil {
			t.Fatal(err)
		}
		m.db.Exec(t, "alter role mover reset default_transaction_read_only")
		m.db.Exec(t, "alter database "+database+" reset default_transaction_read_only")
		bashDone(t, nil, "psql -Xd '"+m.old.URL()+"' -c 'select pg_reload_conf()'")
		if out := bashDone(t, nil, "psql -XAtd '"+m.old.URL()+"' -c 'show default_transaction_read_only'"); out != "off\n" {
			t.Errorf("%s: the old server takes no writes any more: %s", name, out)
		}
	}
}

// A move whose old server goes away lets requests go on, and says what it has left there. One whose servers cannot be told of the new one says so:
// it cannot be repeated.
func TestMoveThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	m := newMovable(t, 0, nil)
	defer m.stop(t)
	var out, done string
	wait.Until(t, "the move that is broken off", func() bool {
		way, folder := proxytest.New(t), t.TempDir()
		acts, gone := filepath.Join(folder, "acts"), filepath.Join(folder, "gone")
		over := make(chan string, 1)
		go func() {
			out, err := bashed(t, []string{"ACTS=" + acts, "GONE=" + gone}, fmt.Sprintf(
				`../../docs/move.sh '%s' '%s' 'echo reload >>$ACTS' 'echo pause >>$ACTS; until [ -e $GONE ]; do sleep 0.1; done' 'echo resume >>$ACTS'`,
				way.Open(t, m.old.URL()), m.replica.URL()))
			over <- fmt.Sprint(out, err)
		}()
		wait.Until(t, "the pause", func() bool {
			_, err := os.Stat(acts)
			return err == nil
		})
		way.Close()
		if err := os.WriteFile(gone, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		out = wait.For(t, "the end of the move", over)
		acted, err := os.ReadFile(acts)
		done = string(acted)
		return err == nil && !strings.Contains(out, "does not pause") // the machine was too slow for its two seconds
	})
	if done != "pause\nresume\n" || !strings.Contains(out, "exit status") || !strings.Contains(out, "alter system reset default_transaction_read_only") {
		t.Errorf("what was done: %q, and it says %s", done, out)
	}

	wait.Until(t, "the move", func() bool {
		text, err := bashed(t, nil, fmt.Sprintf("../../docs/move.sh '%s' '%s' 'exit 3 # reload'", m.old.URL(), m.replica.URL()))
		out = text
		return err != nil && !strings.Contains(out, "nothing has changed")
	})
	if !strings.Contains(out, "until this succeeds: exit 3 # reload") {
		t.Error(out)
	}
	m.lead(t, m.replica.URL())
	if err := m.running.Process.Signal(syscall.SIGHUP); err != nil { // which completes it
		t.Error(err)
	}
}

// moved carries out a move, and does so again if the machine was too slow for its three seconds: then nothing has changed.
func moved(t *testing.T, line string) (out string) {
	t.Helper()
	wait.Until(t, "the move", func() bool {
		var err error
		if out, err = bashed(t, nil, line); err != nil && !strings.Contains(out, "nothing has changed") {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		return err == nil
	})
	return out
}

// checkMoved checks that the service uses the new server, which has everything.
func (m *movable) checkMoved(t *testing.T, users int64) {
	t.Helper()
	replica := &pgtest.DB{URL: m.replica.URL()}
	replica.Pool = replica.Open(t)
	const told = "select sum(refresh_generation)::bigint from connections"
	if old, now := pgtest.Value[int64](t, m.db, told), pgtest.Value[int64](t, replica, told); old >= now {
		t.Errorf("%d refreshes at the old server, and %d at the new one", old, now)
	}
	if n := pgtest.Value[int](t, replica, "select count(*) from audit_log where action = 'connection.recovered'"); n != 0 {
		t.Errorf("%d refreshes were lost, and recovered from their tokens", n)
	}
	if states := pgtest.Value[int](t, replica, "select count(*) from connections where state = 'authorized'"); states != len(m.tokens) {
		t.Errorf("%d of %d connections are authorized at the new server", states, len(m.tokens))
	}
	if n := pgtest.Value[int64](t, replica, "select count(*) from users where timezone = 'Europe/Berlin' and registered_on = '2026-01-31'"); n != users {
		t.Errorf("the new server has %d users of those that were created, want %d", n, users)
	}
}

// The page "A second region for reads": a server there reads from the replica beside it, and asks the first region for the rest. When the first
// region has gone, the replica is promoted, and a reload has the server use it for everything.
func TestSecondRegion(t *testing.T) {
	t.Parallel()
	link := proxytest.New(t) // between the regions
	lines := []string(nil)
	m := newMovable(t, 1, func(m *movable) []string {
		lines = section(t, "A second region for reads", "postgres://connect@first.example.com/connect", link.Open(t, m.old.URL()),
			"psql postgres://connect@second.example.com/connect", "psql "+urlAs(t, &pgtest.DB{URL: m.replica.URL()}, "owner", "owner"), // may not promote
			"postgres://connect@second.example.com/connect", m.replica.URL(), "postgres://postgres@second.example.com/connect", m.replica.URL(),
			"systemctl reload connect-svc", "reload")
		m.db.Exec(t, "create role owner login password 'owner'")
		m.lead(t, link.Open(t, m.old.URL()))
		return lines[1:2]
	})
	defer m.stop(t)
	metric := func(text string) bool {
		_, metrics := get(t, http.DefaultClient, "http://"+m.private+"/metrics")
		return strings.Contains(metrics, text)
	}
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "CONNECT_DATABASE_URL=") || !strings.HasPrefix(lines[1], "CONNECT_DATABASE_READ_URL=") {
		t.Fatalf("the page has other lines: %q", lines)
	}
	wait.Until(t, "a read from the replica", func() bool {
		if status, body := m.read(t); status != http.StatusOK {
			t.Fatalf("a read: %d %s", status, body)
		}
		return !metric(`connect_database_replica_reads_total{outcome="answered"} 0`)
	})
	if status, body, _ := refreshed(t, m.public, m.partner, &m.tokens[0]); status != http.StatusOK {
		t.Errorf("a refresh by way of the first region: %d %s", status, body)
	}
	const generation = "select sum(refresh_generation)::bigint from connections"
	replica := &pgtest.DB{URL: m.replica.URL(), URLs: []string{m.replica.URL()}, Clock: new(clock.Clock)}
	replica.Pool = replica.Open(t)
	wait.Until(t, "the replica has the refresh", func() bool {
		return pgtest.Value[int64](t, replica, generation) == pgtest.Value[int64](t, m.db, generation)
	})

	// The first region goes.
	m.db.Pool.Close()
	link.Close()
	if err := m.old.StopAtOnce(); err != nil {
		t.Fatal(err)
	}
	bashDone(t, nil, lines[2])
	m.lead(t, m.replica.URL())
	if lines[3] != "reload" {
		t.Fatalf("the page has other lines: %q", lines)
	}
	if err := m.running.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the settings are read", func() bool { return strings.Contains(m.log.String(), "the settings were read again") })
	if status, body := m.read(t); status != http.StatusOK {
		t.Errorf("a read afterwards: %d %s", status, body)
	}
	if status, body, _ := refreshed(t, m.public, m.partner, &m.tokens[0]); status != http.StatusOK {
		t.Errorf("a refresh afterwards: %d %s", status, body)
	}
	wait.Until(t, "the service asks for a reconciliation", func() bool { return strings.Contains(m.log.String(), "restore reconcile") })
}
