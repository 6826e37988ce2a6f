//go:build citus

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
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

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/redistest"
	"connect-svc/internal/testing/wait"
)

// fleet is one server on each of some nodes of a cluster.
type fleet struct {
	*e2e.Service
	fronts []*e2e.Front
	apps   []*app.App
	first  app.Config
}

// newFleet starts the first server; join starts another one.
func newFleet(t *testing.T, db *pgtest.DB, change ...func(*app.Config)) *fleet {
	t.Helper()
	f := &fleet{}
	f.Service = e2e.NewOn(t, db, func(config *app.Config) {
		config.DatabaseURL, config.LimiterURL = db.URLs[0], redistest.Start(t).URL()
		config.Logger = slog.New(slog.DiscardHandler) // a node that is away is told of by each request
		for _, apply := range change {
			apply(config)
		}
		f.first = *config
	})
	f.DB.Exec(t, "update clients set requests_per_minute = 1000000, burst = 100000, concurrent_reads = 1000")
	f.fronts, f.apps = []*e2e.Front{e2e.NewFront(t, f.Service, false)}, []*app.App{f.App}
	return f
}

func (f *fleet) join(t *testing.T, url string) {
	t.Helper()
	config := f.first
	config.DatabaseURL = url
	a, err := app.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	f.apps = append(f.apps, a)
	f.fronts = append(f.fronts, e2e.NewFront(t, &e2e.Service{App: a}, false))
}

// ledger is what one connection's partner and its user's app were told.
type ledger struct {
	user   pgtest.User
	tokens oauth.Tokens
	used   string // the refresh token of before
	doubt  bool   // a refresh was answered 500: it may have happened
	lost   string // why a refresh was refused that nothing had ended
	steps  int    // the last total that was stored
}

// load is what went on: how often each request was answered how, and how long the answers took.
type load struct {
	mu      sync.Mutex
	answers map[string]int
	took    []time.Duration
	ledgers []*ledger
	stop    func()
	more    *sync.Cond // another answer is in took
}

// await returns when so many answers have come since the last report.
func (l *load) await(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.took) < n {
		l.more.Wait()
	}
}

func (l *load) note(kind string, status int, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[fmt.Sprintf("%s %d", kind, status)]++
	l.took = append(l.took, took)
	l.more.Broadcast()
}

// report tells of a phase, and begins the next one.
func (l *load) report(t *testing.T, phase string) (answers map[string]int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.took)
	at := func(q float64) time.Duration {
		if len(l.took) == 0 {
			return 0
		}
		return l.took[int(math.Ceil(q*float64(len(l.took))))-1].Round(100 * time.Microsecond)
	}
	var told []string
	for _, answer := range slices.Sorted(maps.Keys(l.answers)) {
		told = append(told, fmt.Sprintf("%s: %d", answer, l.answers[answer]))
	}
	t.Logf("%s: %s; p50 %s, p99 %s, longest %s", phase, strings.Join(told, ", "), at(0.5), at(0.99), at(1))
	answers, l.answers, l.took = l.answers, map[string]int{}, nil
	return answers
}

// newLoad has each connection's partner refresh and read, and the user's app store a total, all the time and at any server.
func (f *fleet) newLoad(t *testing.T, connections int) *load {
	t.Helper()
	return f.newLoadOf(t, connections, func(pgtest.User) bool { return true })
}

// newLoadOf is newLoad for some users.
func (f *fleet) newLoadOf(t *testing.T, connections int, takes func(pgtest.User) bool) *load {
	t.Helper()
	l := &load{answers: map[string]int{}}
	l.more = sync.NewCond(&l.mu)
	day := time.Now().UTC().Truncate(24 * time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	l.stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(l.stop)
	for n := range connections {
		user, tokens := f.newConnectionOf(t, takes)
		book := &ledger{user: user, tokens: tokens}
		l.ledgers = append(l.ledgers, book)
		all.Go(func() {
			for round := n; ctx.Err() == nil; round++ {
				at := round % len(f.fronts)
				began := time.Now()
				if !book.doubt && book.lost == "" {
					got := f.fronts[at].Refresh(context.Background(), t, f.Partner, book.tokens.RefreshToken)
					l.note("refresh", got.Status, time.Since(began))
					book.take(got)
					began = time.Now()
				}
				got := f.fronts[at].Read(context.Background(), t, book.tokens)
				l.note("read", got.Status, time.Since(began))
				began = time.Now()
				limited, end := context.WithTimeout(context.Background(), wait.Limit)
				_, err := f.apps[at].Activity.Put(limited, activity.Batch{DailySteps: []activity.StepsRecord{
					{UserID: user.ID, Date: day, Steps: book.steps + 1},
				}})
				end()
				if err == nil {
					book.steps++
					l.note("write", 200, time.Since(began))
				} else {
					l.note("write", 500, time.Since(began))
				}
			}
		})
	}
	return l
}

// newConnectionOf connects a new user that takes admits.
func (f *fleet) newConnectionOf(t *testing.T, takes func(pgtest.User) bool) (pgtest.User, oauth.Tokens) {
	t.Helper()
	for {
		if user, tokens := f.NewConnection(t, f.Partner); takes(user) {
			return user, tokens
		}
	}
}

func (b *ledger) take(got e2e.Response) {
	switch got.Status {
	case 200:
		var tokens struct {
			AccessToken  string `json:"access_token"`
			RefreshToken string `json:"refresh_token"`
		}
		if err := json.Unmarshal([]byte(got.Body), &tokens); err != nil {
			b.lost = err.Error()
			return
		}
		b.used, b.tokens.AccessToken, b.tokens.RefreshToken = b.tokens.RefreshToken, tokens.AccessToken, tokens.RefreshToken
	case 500:
		b.doubt = true
	default:
		b.lost = fmt.Sprint(got.Status, got.Body)
	}
}

// settle ends the load, and holds what was acknowledged against what is there.
func (f *fleet) settle(t *testing.T, l *load) {
	t.Helper()
	l.stop()
	doubts := 0
	for n, book := range l.ledgers {
		front := f.fronts[n%len(f.fronts)]
		if stored := pgtest.Value[int](t, f.DB, "select coalesce(max(steps), 0)::int from daily_steps where user_id = $1", book.user.ID); stored < book.steps || stored > book.steps+1 {
			t.Errorf("the stored total is %d, and %d was acknowledged", stored, book.steps)
		}
		if book.lost != "" {
			t.Errorf("a connection was lost: %s", book.lost)
			continue
		}
		got := front.Refresh(t.Context(), t, f.Partner, book.tokens.RefreshToken)
		if book.doubt {
			doubts++
			if got.Status != 200 && got.Status != 400 {
				t.Errorf("after an unknown outcome a refresh is answered %d", got.Status)
			}
			continue
		}
		if got.Status != 200 {
			t.Errorf("the last refresh token is answered %d %s", got.Status, got.Body)
		}
		if book.used != "" {
			if got := front.Refresh(t.Context(), t, f.Partner, book.used); got.Status != 400 {
				t.Errorf("a used refresh token is answered %d", got.Status)
			}
		}
	}
	t.Logf("%d connections, %d of them with a refresh of unknown outcome", len(l.ledgers), doubts)
}

// Shards move, and a node dies and comes back, while partners refresh and read at servers on different nodes.
func TestClusterUnderLoad(t *testing.T) {
	db := pgtest.New(t)
	f := newFleet(t, db)
	for _, url := range db.URLs[1:] {
		f.join(t, url)
	}
	coordinator := session(t, db.URLs[0])
	l := f.newLoad(t, 12)
	l.await(900)
	l.report(t, "three servers on three nodes")

	// The users' shards of the coordinator and of both workers change places.
	rows, err := coordinator.Query(t.Context(), `select shardid, nodename, nodeport from citus_shards where table_name = 'users'::regclass`)
	if err != nil {
		t.Fatal(err)
	}
	type placement struct {
		ShardID int64
		Name    string
		Port    int
	}
	placements, err := pgx.CollectRows(rows, pgx.RowToStructByPos[placement])
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range placements {
		if _, err := coordinator.Exec(t.Context(), `select citus_move_shard_placement($1, $2, $3, nodename, nodeport, 'force_logical')
			from pg_dist_node where (nodename, nodeport) <> ($2, $3) and isactive and shouldhaveshards order by random() limit 1`,
			from.ShardID, from.Name, from.Port); err != nil {
			t.Fatal(err)
		}
	}
	for answer, n := range l.report(t, fmt.Sprintf("%d shard groups moved", len(placements))) {
		if !strings.HasSuffix(answer, " 200") {
			t.Errorf("%s: %d times", answer, n)
		}
	}

	restart(t, db.URLs[2], func() { l.await(30) })
	// Each node would release the locks that the crash left within a minute.
	for _, url := range db.URLs {
		if _, err := session(t, url).Exec(t.Context(), "select recover_prepared_transactions()"); err != nil {
			t.Error(err)
		}
	}
	l.await(400) // for what began without it
	l.report(t, "a worker crashed and came back")
	l.await(600)
	for answer, n := range l.report(t, "after that") {
		if !strings.HasSuffix(answer, " 200") {
			t.Errorf("%s: %d times", answer, n)
		}
	}
	f.settle(t, l)
}

// Two servers on different nodes race for one code, one refresh token, and one client.
func TestRacesBetweenNodes(t *testing.T) {
	db := pgtest.New(t)
	f := newFleet(t, db)
	for _, url := range db.URLs[1:] {
		f.join(t, url)
	}
	race := func(act func(*app.App) error) (won int, refused int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		start := make(chan struct{})
		for n := range 9 {
			all.Go(func() {
				<-start
				err := act(f.apps[n%len(f.apps)])
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won++
				case errors.Is(err, oauth.ErrInvalidGrant), errors.Is(err, oauth.ErrInvalidClient):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
		return won, refused
	}
	for range 10 {
		user := db.User(t)
		code := edgetest.Code(t, f.apps[1].OAuth, f.Partner, scope.All, user.ID)
		tokens := make(chan oauth.Tokens, 9)
		if won, _ := race(func(a *app.App) error {
			got, err := a.OAuth.Exchange(t.Context(), edgetest.Credentials(f.Partner), oauth.ExchangeParams{
				Code: code, RedirectURI: f.Partner.CallbackURL, CodeVerifier: edgetest.Verifier,
			})
			if err == nil {
				tokens <- got
			}
			return err
		}); won != 1 {
			t.Errorf("one code was exchanged %d times", won)
			continue
		}
		first := (<-tokens).RefreshToken
		if won, _ := race(func(a *app.App) error {
			_, err := a.OAuth.Refresh(t.Context(), edgetest.Credentials(f.Partner), first)
			return err
		}); won != 1 {
			t.Errorf("one refresh token was used %d times", won)
		}
		if state := pgtest.Value[string](t, db, "select state from connections where user_id = $1", user.ID); state != "revoked" {
			t.Errorf("after a replay the connection is %s", state)
		}
		if n := pgtest.Value[int](t, db, "select count(*)::int from audit_log where subject = $1 and action = 'connection.revoked'", user.ID); n != 1 {
			t.Errorf("it was revoked %d times", n)
		}
	}
	// When one node has said that a client is disabled, no other lets it in.
	var disabled atomic.Bool
	var all sync.WaitGroup
	for _, a := range f.apps {
		_, tokens := f.NewConnection(t, f.Partner)
		all.Go(func() {
			for token := tokens.RefreshToken; ; {
				late := disabled.Load()
				got, err := a.OAuth.Refresh(t.Context(), edgetest.Credentials(f.Partner), token)
				switch {
				case err == nil && late:
					t.Error("a disabled client got tokens")
					return
				case errors.Is(err, oauth.ErrInvalidClient):
					return
				case err != nil:
					t.Error(err)
					return
				}
				token = got.RefreshToken
			}
		})
	}
	if err := f.apps[2].Clients.Disable(t.Context(), f.Partner.ID); err != nil {
		t.Error(err)
	}
	disabled.Store(true)
	all.Wait()
}

func session(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.WithoutCancel(t.Context()), url) // tests end what they began
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// restart lets a node's PostgreSQL crash and starts it again after meanwhile.
func restart(t *testing.T, url string, meanwhile func()) {
	t.Helper()
	m := machineOf(t, url)
	m.run(t, "pg_ctl", "stop", "-w", "-m", "immediate", "-D", m.data)
	meanwhile()
	m.run(t, "pg_ctl", "start", "-w", "-l", filepath.Join(m.data, "restarted.log"), "-D", m.data)
}

// machine is where the PostgreSQL of a node runs, which must be this one.
type machine struct {
	data, programs string // folders
	owner          *syscall.Stat_t
}

func machineOf(t *testing.T, url string) (m machine) {
	t.Helper()
	if err := session(t, url).QueryRow(t.Context(), "select current_setting('data_directory'), (select setting from pg_config where name = 'BINDIR')").Scan(&m.data, &m.programs); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(m.data)
	if err != nil {
		t.Fatal(err)
	}
	m.owner = info.Sys().(*syscall.Stat_t)
	return m
}

// run runs a program of PostgreSQL as the owner of its data.
func (m machine) run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(m.programs, program), args...)
	cmd.Dir, cmd.SysProcAttr = m.data, &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), "HOME="+m.data) // a node that connects to others looks there for a certificate
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: m.owner.Uid, Gid: m.owner.Gid}
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
}
