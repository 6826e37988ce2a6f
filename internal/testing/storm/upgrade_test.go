//go:build faults

package storm

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/history"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	// bigDisk is how many bytes the file system of the database has, if there can be one of its own.
	bigDisk = 4 << 30
	// drained is the servers' drain delay: some rounds of the balancer.
	drained = 3 * time.Second
	// settled is how long a phase of an upgrade goes on after its last step.
	settled = 5 * time.Second
	// slower is how many times its p99 beside nothing a request's p99 may be.
	slower = 3
)

// upgrade is a storm without faults, in which the servers are replaced by those of another version. The next version has the migrations of
// testdata/next, one of each kind. The one after it also has that of testdata/after: it removes what the released program uses, and the
// next one does not.
type upgrade struct {
	*storm
	released, next, after string
	phases                []phase
}

// phase is a part of the run.
type phase struct {
	name        string
	began, over time.Time
}

// TestUpgrade has three servers upgrade and downgrade under load, as docs/upgrade.md says, on a database with many rows.
func TestUpgrade(t *testing.T) {
	rows, err := strconv.Atoi(setting(t, "CONNECT_TEST_UPGRADE_ROWS", "2000000"))
	if err != nil {
		t.Fatal(err)
	}
	quiet, err := time.ParseDuration(setting(t, "CONNECT_TEST_UPGRADE_QUIET", "1m"))
	if err != nil {
		t.Fatal(err)
	}
	released, documented := buildReleased(t)
	u := &upgrade{released: released, next: buildNext(t, "next", "next"), after: buildNext(t, "after", "next", "after")}
	var db *database
	if pgtest.OnCluster() {
		db = newCluster(t)
	} else {
		db = newDatabase(t, bigDisk)
	}
	u.storm = newStorm(t, 0, db, u.released, false, false, false, true, "CONNECT_DRAIN_DELAY="+drained.String())
	t.Logf("on %s, with %d rows of daily steps", map[bool]string{true: "a cluster", false: "PostgreSQL"}[pgtest.OnCluster()], rows)
	u.fill(rows)
	u.prepare()
	u.operator.Transport = contracttest.Operator.Or(documented).Transport(t, u.plain)

	stop, end := context.WithCancel(context.Background())
	defer end()
	u.stop = stop
	var load sync.WaitGroup
	load.Go(u.balance)
	u.startLoad(&load)
	await(u.stop, 2*settled) // caches are cold
	u.phase("quiet", func() { await(u.stop, quiet-settled) })
	before := u.schema()
	u.forward()
	between := u.schema()
	u.back(u.released, before)
	u.forward()
	u.removal(between)
	end()
	load.Wait()
	u.calm()
	u.check()
	u.sum.print(t)
	u.judge()
}

// forward upgrades from the released version to the next.
func (u *upgrade) forward() {
	u.Helper()
	u.phase("migrate up", func() { u.up(u.next) })
	u.refuses(u.released)
	u.phase("replace servers by the next", func() { u.replace(u.next) })
}

// back downgrades to a version, whose schema is known.
func (u *upgrade) back(to, schema string) {
	u.Helper()
	from := u.servers[0].program
	u.phase("replace servers by the former", func() { u.replace(to) })
	u.phase("migrate down", func() { u.down(from, schema) })
}

// removal upgrades from the next version to the one after it, which shuts out the released one, and back.
func (u *upgrade) removal(schema string) {
	u.Helper()
	old := &server{
		t: u.T, program: u.released, env: u.servers[0].env, front: newLink(u.T, "clients to an old server", "127.0.0.1:9"),
		back: newLink(u.T, "operator to an old server", "127.0.0.1:9"),
	}
	if err := old.start(u.Context()); err != nil {
		u.Fatalf("an older program does not start on a newer schema: %v", err)
	}
	u.Cleanup(func() { _, _ = old.end(syscall.SIGKILL) })
	u.until("the old server is ready", func(ctx context.Context) (bool, error) { return old.ready(ctx), nil })
	u.programs.are(u.next)
	u.phase("migrate up, with a removal", func() { u.up(u.after) })
	u.refuses(u.next)
	u.until("the old server is not ready", func(ctx context.Context) (bool, error) { return !old.ready(ctx), nil })
	if _, err := old.end(syscall.SIGTERM); err != nil {
		u.Error(err)
	}
	if err := old.tryStart(); err == nil || !strings.Contains(err.Error(), "run a newer program") {
		u.Errorf("a program that the schema shuts out starts, or does not say why: %v", err)
	}
	u.phase("replace servers by those after the next", func() { u.replace(u.after) })
	u.back(u.next, schema)
}

// refuses has a program that does not know the newest migration try to take one back.
func (u *upgrade) refuses(program string) {
	u.Helper()
	before := u.schema()
	if err := u.migrate(u.Context(), program, "down", "--yes"); err == nil {
		u.Error("an older program takes back a migration of a newer one")
	} else {
		u.Logf("an older program: %v", err)
	}
	if u.schema() != before {
		u.Fatal("an older program changed the schema of a newer one")
	}
}

// phase carries out steps and lets the load go on for a while.
func (u *upgrade) phase(name string, steps func()) {
	u.Helper()
	began := time.Now()
	steps()
	took := time.Since(began)
	await(u.stop, settled)
	u.phases = append(u.phases, phase{name, began, time.Now()})
	u.Logf("%s: %s", name, took.Round(time.Millisecond))
}

// up applies a program's migrations.
func (u *upgrade) up(program string) {
	u.Helper()
	if err := u.migrate(u.Context(), program, "up"); err != nil {
		u.Fatal(err)
	}
}

// replace replaces the servers, one after the other.
func (u *upgrade) replace(by string) {
	u.Helper()
	u.programs.are(u.servers[0].program, by)
	for _, one := range u.servers {
		began := time.Now()
		state, err := one.end(syscall.SIGTERM)
		if err != nil {
			u.Fatal(err)
		}
		if took := time.Since(began); !state.Success() || took > drained+15*time.Second {
			u.Errorf("a server asked to end: %s after %s\n%s", state, took, one.tail(5))
		}
		one.program = by
		if err := one.start(u.Context()); err != nil {
			u.Fatal(err)
		}
		u.until("the new server is ready", func(context.Context) (bool, error) { return !one.out.Load(), nil })
	}
	u.programs.are(by)
}

// down takes back a program's migrations, until the schema is that of the former.
func (u *upgrade) down(program, schema string) {
	u.Helper()
	for u.schema() != schema {
		newest := u.newest()
		if err := u.migrate(u.Context(), program, "down", "--yes"); err != nil {
			u.Fatal(err)
		}
		if u.newest() == newest || u.newest() == "0" {
			u.Fatalf("after the way down the schema is another than before:\n%s\n\nbefore:\n%s", u.schema(), schema)
		}
	}
}

func (u *upgrade) newest() string {
	u.Helper()
	version, err := query[string](u.Context(), u.database, "select max(version_id)::text from goose_db_version")
	if err != nil {
		u.Fatal(err)
	}
	return version
}

// schema describes the schema, with the migrations that are applied.
func (u *upgrade) schema() string {
	u.Helper()
	text, err := query[string](u.Context(), u.database, `select string_agg(line, E'\n' order by line) from (
		select pg_get_functiondef(oid) line from pg_proc where pronamespace = 'public'::regnamespace and prokind = 'f'
		union all select format('%s.%s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull) from pg_attribute
			join pg_class c on c.oid = attrelid where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and attnum > 0 and not attisdropped
		union all select format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) from pg_constraint where connamespace = 'public'::regnamespace
		union all select indexdef from pg_indexes where schemaname = 'public'
		union all select 'migration ' || version_id from goose_db_version) lines`)
	if err != nil {
		u.Fatal(err)
	}
	return text
}

// fill makes the tables large: users with a thousand days each.
func (u *upgrade) fill(rows int) {
	u.Helper()
	if pgtest.OnCluster() {
		if _, err := u.command(u.Context(), u.env, u.released, "migrate", "distribute", "--shards", "4"); err != nil {
			u.Fatal(err)
		}
	}
	for _, statement := range []string{
		fmt.Sprintf(`insert into users (user_id, email, timezone, registered_on, created_at)
			select md5(n::text)::uuid, 'row-' || n || '@rows.example', 'UTC', '2020-01-01', now() from generate_series(1, %d) n`, (rows+999)/1000),
		`insert into daily_steps (user_id, date, steps)
			select md5(n::text)::uuid, '2020-01-01'::date + day, day from generate_series(1, ` + strconv.Itoa((rows+999)/1000) + `) n, generate_series(1, 1000) day`,
		"analyze",
	} {
		if err := u.database.exec(u.Context(), statement); err != nil {
			u.Fatal(err)
		}
	}
}

// ready asks the server whether it is.
func (s *server) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.back.address+"/readyz", nil)
	if err != nil {
		return false
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// balance takes servers out that are not ready, as a load balancer does.
func (u *upgrade) balance() {
	var all sync.WaitGroup
	for _, one := range u.servers {
		all.Go(func() {
			for u.stop.Err() == nil {
				one.out.Store(!one.ready(u.stop))
				await(u.stop, 100*time.Millisecond)
			}
			one.out.Store(false)
		})
	}
	all.Wait()
}

// judge fails the test if a request failed, if requests of a phase took too long, or those of a kind in all phases.
func (u *upgrade) judge() {
	u.Helper()
	kinds := []string{"reads", "tokens", "pages", "operator", "all"}
	var text strings.Builder
	fmt.Fprintf(&text, "%-58s", "p99 in ms")
	for _, kind := range kinds {
		fmt.Fprintf(&text, " %20s", kind)
	}
	quiet, whole := times{}, times{}
	for n, p := range append(u.phases, phase{name: "the whole upgrade"}) {
		took := times{}
		for _, s := range u.sum.samples {
			if s.at.Before(p.began) || s.at.After(p.over) {
				continue
			}
			kind := kindOf(s.kind)
			took[kind] = append(took[kind], s.took)
			if kind != "commands" {
				took["all"] = append(took["all"], s.took)
			}
		}
		switch n {
		case 0:
			quiet = took
		case len(u.phases):
			took = whole
		default:
			for kind := range took {
				whole[kind] = append(whole[kind], took[kind]...)
			}
		}
		fmt.Fprintf(&text, "\n%-58s", fmt.Sprintf("%s, %d requests", p.name, len(took["all"])))
		for _, kind := range kinds {
			ratio := float64(took.p99(kind)) / float64(quiet.p99(kind))
			fmt.Fprintf(&text, " %12.1f (×%5.2f)", float64(took.p99(kind))/float64(time.Millisecond), ratio)
			// The operator sends so few requests that its p99 is that of the first ones at new servers, whose connections prepare statements.
			if judged := kind == "all" || n == len(u.phases) && kind != "operator"; judged && ratio > slower {
				u.Errorf("%s: p99 of %s is %.2f × quiet", p.name, kind, ratio)
			}
		}
	}
	u.Logf("the upgrade:\n%s", text.String())
	for _, s := range u.sum.samples {
		if broken(s.answer) && s.at.After(u.phases[0].began) {
			u.Errorf("%s: %q gets %q, at %s", u.phaseAt(s.at), s.kind, s.answer, s.at.Format(time.RFC3339Nano))
		}
	}
	for _, one := range u.servers {
		for _, line := range one.errors {
			u.Logf("a request failed: %s", line)
		}
	}
}

func (u *upgrade) phaseAt(at time.Time) (name string) {
	for _, p := range u.phases {
		if !at.Before(p.began) {
			name = p.name
		}
	}
	return name
}

// times are how long requests took, by kind.
type times map[string][]time.Duration

func (t times) p99(kind string) time.Duration {
	if len(t[kind]) == 0 {
		return 0
	}
	slices.Sort(t[kind])
	return t[kind][(len(t[kind])*99+99)/100-1]
}

// kindOf is the kind of requests whose times are compared.
func kindOf(request string) string {
	switch request {
	case "authorize", "sign in", "consent page", "consent":
		return "pages"
	case "exchange", "refresh", "authenticate", string(history.RevokeAccess), string(history.RevokeRefresh), string(history.DisconnectByClient):
		return "tokens"
	case "import", "import steps", string(history.DisableClient), string(history.EnableClient):
		return "commands"
	}
	if strings.HasPrefix(request, "read ") && request != "read user" {
		return "reads"
	}
	return "operator"
}

// broken reports whether a request got no answer, or an error of the service.
func broken(answer string) bool {
	return answer == "none" || answer == "failed" || slices.ContainsFunc([]int{500, 502, 503, 504}, func(status int) bool {
		return answer == http.StatusText(status)
	})
}
