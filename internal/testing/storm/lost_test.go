//go:build faults

package storm

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/app"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/history"
)

// fate is a connection whose last acts were lost.
type fate struct {
	*connection
	what  string
	alive bool // by the log of what was lost
	used  code // that was exchanged and lost
}

// lostActs are what happens to connections before an asynchronous failover, by name. Those that are alive afterwards refresh.
var lostActs = []struct {
	what  string
	alive bool
	do    func(f *fate)
}{
	{"refreshed", true, func(f *fate) {
		for range 3 {
			f.refreshNewest()
		}
	}},
	{"refreshed and read", true, func(f *fate) {
		f.refreshNewest()
		last, _ := f.token(0)
		f.read(0, last, datasets[0])
	}},
	{"authorized again", true, func(f *fate) { f.connect(0); f.used, _ = f.code(0) }},
	{"revoked and authorized again", true, func(f *fate) { f.revokeNewest(); f.connect(0); f.refreshNewest() }},
	{"disconnected and authorized again", true, func(f *fate) { f.disconnectByUser(0); f.connect(0) }},
	{"revoked", false, func(f *fate) { f.refreshNewest(); f.revokeNewest() }},
	{"replayed", false, func(f *fate) { old, _ := f.token(0); f.refreshNewest(); f.refresh(0, old) }},
	{"disconnected by the client", false, func(f *fate) { f.disconnectByClient(0) }},
	{"disconnected by the user", false, func(f *fate) { f.refreshNewest(); f.disconnectByUser(0) }},
	{"deleted", false, func(f *fate) { f.deleteUser(f.user, nil) }},
}

func (f *fate) refreshNewest() { last, _ := f.token(0); f.refresh(0, last) }

func (f *fate) revokeNewest() {
	last, _ := f.token(0)
	f.revoke(0, history.Op{Act: history.RevokeRefresh, Version: last.version, Generation: last.generation}, last.refresh)
}

// loseCommits is the last fault of a storm: a replica takes over that lacks the last commits. Connections recover by their tokens or by
// `restore reconcile`, and what has ended by the log of the former primary stays ended.
func (s *storm) loseCommits(chance *rand.Rand) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
	defer cancel()
	s.stop = ctx
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	former := s.database.server
	heir, err := embedded.StartReplica(ctx, former, embedded.Config{Dir: filepath.Join(s.database.base, "heir")})
	if err != nil {
		s.Fatal(err)
	}
	var fates []*fate
	var all sync.WaitGroup
	for range 2 {
		for _, act := range lostActs {
			f := &fate{what: act.what, alive: act.alive}
			if f.connection = s.lasting(s.steady); f.connection == nil {
				continue
			}
			fates = append(fates, f)
		}
	}
	s.until("the replica has everything", func(ctx context.Context) (bool, error) {
		end, err := query[string](ctx, s.database, "select pg_current_wal_lsn()::text")
		if err != nil {
			return false, err
		}
		return scan[bool](ctx, heir, "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", end)
	})
	if err := follow(ctx, heir, ""); err != nil {
		s.Fatal(err)
	}
	s.until("the replica receives nothing", func(ctx context.Context) (bool, error) {
		return scan[bool](ctx, heir, "select count(*) = 0 from pg_stat_wal_receiver")
	})
	for n, f := range fates {
		all.Go(func() { lostActs[n%len(lostActs)].do(f) })
	}
	all.Wait()

	exported := s.run(nil, "audit", "list", "--output", "json") // before the failover
	if err := s.database.inherit(ctx, heir); err != nil {
		s.Fatal(err)
	}
	s.sum.fault("asynchronous failover that lost commits")
	recovered := 0
	for n, f := range fates {
		if last, _ := f.token(0); n < len(lostActs) && f.alive && last.version == 1 { // its partner does not wait for the operator
			f.mustRefresh("before the reconciliation")
			recovered++
		}
	}
	var done app.Reconciled
	var answer []byte
	if chance.IntN(2) == 0 {
		path := filepath.Join(s.dir, "audit.json")
		if err := os.WriteFile(path, exported, 0o600); err != nil {
			s.Fatal(err)
		}
		answer = s.run(nil, "restore", "reconcile", "--output", "json", "--audit", path)
	} else {
		witness, err := embedded.Start(ctx, embedded.Config{Dir: s.database.former})
		if err != nil {
			s.Fatal(err)
		}
		answer = s.run([]string{"CONNECT_DATABASE_READ_URL=" + witness.URL()}, "restore", "reconcile", "--output", "json", "--since", since)
		if err := witness.Stop(); err != nil {
			s.Error(err)
		}
	}
	if err := json.Unmarshal(answer, &done); err != nil {
		s.Errorf("restore reconcile: %v", err)
	}
	if done.Users == 0 || done.Revoked == 0 || done.Disconnected == 0 || done.Authorized == 0 {
		s.Errorf("the failover did not lose what it should: %+v", done)
	}
	alive, ended := 0, 0
	for _, f := range fates {
		if f.alive {
			alive++
			f.mustRefresh("after the reconciliation")
			f.mustRefresh("after its recovery")
		} else {
			ended++
			f.mustBeEnded()
		}
		if f.used.value != "" && f.exchangeAgain() != http.StatusBadRequest {
			s.Errorf("%s: a code that was exchanged before the failover is not refused", f.what)
		}
	}
	s.sum.fact("an asynchronous failover lost acts of %d connections: %d recovered by their tokens before the reconciliation, which deleted %d users, revoked %d, "+
		"disconnected %d and restored %d; %d of %d alive refresh, %d of %d ended ones do not",
		len(fates), recovered, done.Users, done.Revoked, done.Disconnected, done.Authorized, alive, alive, ended, ended)
}

// mustRefresh: the newest token that its partner has works.
func (f *fate) mustRefresh(when string) {
	last, _ := f.token(0)
	got := f.act("refresh", f.partner, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {last.refresh}})
	if got.status != http.StatusOK {
		f.Errorf("%s: a refresh %s is answered %d", f.what, when, got.status)
		return
	}
	if version := f.issued(got, last.generation+1); version != last.version {
		f.Errorf("%s: a refresh %s has version %d, want %d", f.what, when, version, last.version)
	}
}

// mustBeEnded: nothing that its partner has works.
func (f *fate) mustBeEnded() {
	for _, old := range f.tokens {
		got := f.act("refresh", f.partner, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.refresh}})
		if got.status != http.StatusBadRequest {
			f.Errorf("%s before the failover: a refresh is answered %d", f.what, got.status)
		}
		request := f.request(http.MethodGet, "/connect-svc/v1/grants/"+f.grant+"/daily-activity?from="+f.day+"&to="+f.day, nil)
		request.Header.Set("Authorization", "Bearer "+old.access)
		if got := f.send("read daily-activity", f.api, request); got.status != http.StatusUnauthorized {
			f.Errorf("%s before the failover: a read is answered %d", f.what, got.status)
		}
	}
}

func (f *fate) exchangeAgain() int {
	return f.act("exchange", f.partner, http.MethodPost, "/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {f.used.value}, "redirect_uri": {callback}, "code_verifier": {verifier},
	}).status
}

// lasting is a new user with a connection.
func (s *storm) lasting(p *partner) *connection {
	u := s.newUser(s.Context())
	if u == nil {
		s.Fatal("no user can be created while there is no fault")
	}
	c := s.newConnection(u, p)
	for tries := 0; tries < 5; tries++ {
		c.connect(0)
		if _, ok := c.token(0); ok {
			return c
		}
	}
	s.Error("nobody can connect while there is no fault")
	return nil
}

// run has the program do something, which must succeed, and returns what it printed.
func (s *storm) run(env []string, args ...string) []byte {
	s.Helper()
	program, done := s.programs.any()
	defer done()
	output, err := s.command(s.Context(), append(env, s.env...), program, args...)
	if err != nil {
		s.Fatal(err)
	}
	return output
}

// inherit has a replica take over from a primary that is gone at once, and keeps the files of the former.
func (d *database) inherit(ctx context.Context, heir *embedded.Server) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.former = d.dir()
	if err := d.server.StopAtOnce(); err != nil {
		return err
	}
	if err := on(ctx, heir, "select pg_promote()"); err != nil {
		return err
	}
	d.server = heir
	return d.way.lead(d.address())
}

// scan reads the one value that the statement finds at a server.
func scan[T any](ctx context.Context, server *embedded.Server, sql string, args ...any) (value T, err error) {
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return value, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, sql, args...).Scan(&value)
	return value, err
}
