package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/app"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// lossy is a service whose latest commits are going to be lost.
type lossy struct {
	*oauth.Server
	keys             *credential.Keyring
	partner, leaving pgtest.Client
	alive, ended     []held
	code             string // that was used
}

// held is a partner's connection with all tokens that it was given, newest last.
type held struct {
	what   string
	of     pgtest.Client
	tokens []oauth.Tokens
}

// later is a connection that changes after the backup.
type later struct {
	of     pgtest.Client
	user   pgtest.User
	tokens []oauth.Tokens
}

// newLossy connects users, and returns the acts that follow on them, which are going to be lost.
func newLossy(t *testing.T, db *pgtest.DB, keys *credential.Keyring) (l *lossy, lose func()) {
	t.Helper()
	l = &lossy{Server: oauth.New(db.Pool, keys, oauth.DefaultSettings), keys: keys, partner: db.Client(t), leaving: db.Client(t)}
	db.Webhook(t, l.partner.ID)
	accounts := account.New(db.Pool, nil, nil, account.Settings{EndConnections: oauth.EndConnectionsOfUser, EndRequests: oauth.EndRequestsOfUsers})
	credentials := edgetest.Credentials(l.partner)
	done := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refresh := func(c *later) {
		t.Helper()
		next, err := l.Refresh(t.Context(), edgetest.Credentials(c.of), c.tokens[len(c.tokens)-1].RefreshToken)
		done(err)
		c.tokens = append(c.tokens, next)
	}
	connect := func(c *later, scopes scope.Set) {
		t.Helper()
		c.tokens = append(c.tokens, edgetest.Connect(t, l.Server, c.of, scopes, c.user.ID))
	}
	revoke := func(c *later) {
		t.Helper()
		done(l.Revoke(t.Context(), credentials, c.tokens[len(c.tokens)-1].RefreshToken))
	}
	disconnect := func(c *later) {
		t.Helper()
		done(l.Disconnect(t.Context(), credentials, c.tokens[0].GrantID))
	}
	disconnectAhead := func(c *later) {
		t.Helper()
		db.Jump(t, time.Hour)
		disconnect(c)
		db.Jump(t, 0)
	}
	type kind struct {
		what  string
		ended bool
		act   func(*later)
	}
	kinds := []kind{
		{"untouched", false, func(*later) {}},
		{"refreshed", false, func(c *later) { refresh(c) }},
		{"refreshed often", false, func(c *later) { refresh(c); refresh(c); refresh(c) }},
		{"authorized again", false, func(c *later) { connect(c, scope.All); refresh(c) }},
		{"disconnected, and authorized for less", false, func(c *later) { disconnect(c); connect(c, scope.DailySteps) }},
		{"disconnected while the clock was ahead, and authorized again", false, func(c *later) { disconnectAhead(c); connect(c, scope.All) }},
		{"disconnected while the clock was behind", true, func(c *later) { connect(c, scope.All); db.Jump(t, -time.Hour); disconnect(c); db.Jump(t, 0) }},
		{"revoked, and authorized again", false, func(c *later) { revoke(c); connect(c, scope.All) }},
		{"revoked by the partner", true, revoke},
		{"refreshed and revoked", true, func(c *later) { refresh(c); revoke(c) }},
		{"authorized again and revoked", true, func(c *later) { connect(c, scope.All); revoke(c) }},
		{"replayed", true, func(c *later) {
			refresh(c)
			if _, err := l.Refresh(t.Context(), credentials, c.tokens[0].RefreshToken); !errors.Is(err, oauth.ErrReplayed) {
				t.Fatal(err)
			}
		}},
		{"disconnected by the partner", true, disconnect},
		{"disconnected by the user", true, func(c *later) { done(l.DisconnectUser(t.Context(), c.user.ID, c.of.ID)) }},
		{"disconnected by the operator", true, func(c *later) { done(l.DisconnectByOperator(t.Context(), c.user.ID, c.of.ID)) }},
		{"refreshed, and disconnected", true, func(c *later) { refresh(c); disconnect(c) }},
		{"the user is deleted", true, func(c *later) {
			_, err := accounts.DeleteUser(t.Context(), c.user.ID)
			done(err)
		}},
	}
	var all []later
	for range kinds {
		c := later{of: l.partner, user: db.User(t)}
		connect(&c, scope.All)
		all = append(all, c)
	}
	left := later{of: l.leaving, user: db.User(t)}
	connect(&left, scope.All)
	revoked := later{of: l.partner, user: db.User(t)}
	connect(&revoked, scope.All)
	revoke(&revoked)
	ahead := later{of: l.partner, user: db.User(t)}
	connect(&ahead, scope.All)
	disconnectAhead(&ahead)
	connect(&ahead, scope.All)
	first := later{of: l.partner, user: db.User(t)}
	l.code = edgetest.Code(t, l.Server, l.partner, scope.All, first.user.ID)
	return l, func() {
		t.Helper()
		for i := range all {
			kinds[i].act(&all[i])
			into := &l.alive
			if kinds[i].ended {
				into = &l.ended
			}
			*into = append(*into, held{kinds[i].what, all[i].of, all[i].tokens})
		}
		_, err := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient).Offboard(t.Context(), l.leaving.ID)
		done(err)
		l.ended = append(l.ended, held{"the partner is offboarded", l.leaving, left.tokens})
		disconnect(&ahead)
		l.ended = append(l.ended, held{"disconnected while the clock was ahead, authorized again and disconnected", l.partner, ahead.tokens})
		connect(&revoked, scope.All)
		first.tokens = append(first.tokens, edgetest.Exchange(t, l.Server, l.partner, l.code))
		refresh(&first)
		l.alive = append(l.alive, held{"revoked before, and authorized again", l.partner, revoked.tokens}, held{"a first authorization", l.partner, first.tokens})
	}
}

// check holds a database that was reconciled against what was lost: every connection that was alive refreshes, and none that has ended
// does anything.
func (l *lossy) check(t *testing.T, pool *postgres.Pool) {
	t.Helper()
	server := oauth.New(pool, l.keys, oauth.DefaultSettings)
	if _, err := server.Exchange(t.Context(), edgetest.Credentials(l.partner), oauth.ExchangeParams{
		Code: l.code, RedirectURI: l.partner.CallbackURL, CodeVerifier: edgetest.Verifier,
	}); !errors.Is(err, oauth.ErrInvalidGrant) {
		t.Errorf("a used code: %v", err)
	}
	for _, one := range l.alive {
		newest := one.tokens[len(one.tokens)-1]
		for _, tokens := range one.tokens {
			if tokens.ConnectionVersion == newest.ConnectionVersion {
				continue
			}
			if _, err := server.Refresh(t.Context(), edgetest.Credentials(one.of), tokens.RefreshToken); !errors.Is(err, oauth.ErrInvalidGrant) {
				t.Errorf("%s: a refresh token of an earlier version: %v", one.what, err)
			}
		}
		for range 2 {
			next, err := server.Refresh(t.Context(), edgetest.Credentials(one.of), newest.RefreshToken)
			if err != nil || next.GrantID != newest.GrantID || next.ConnectionVersion != newest.ConnectionVersion ||
				next.Scopes != newest.Scopes || !next.HistoryFrom.Equal(newest.HistoryFrom) {
				t.Errorf("%s: %v, %t", one.what, err, next.GrantID == newest.GrantID)
				break
			}
			if _, err := server.Authenticate(t.Context(), next.AccessToken); err != nil {
				t.Errorf("%s: the access token: %v", one.what, err)
			}
			newest = next
		}
	}
	for _, one := range l.ended {
		for _, tokens := range one.tokens {
			_, err := server.Refresh(t.Context(), edgetest.Credentials(one.of), tokens.RefreshToken)
			if !errors.Is(err, oauth.ErrInvalidGrant) && !errors.Is(err, oauth.ErrInvalidClient) {
				t.Errorf("%s: a refresh: %v", one.what, err)
			}
			if _, err := server.Authenticate(t.Context(), tokens.AccessToken); !errors.Is(err, oauth.ErrInvalidAccessToken) {
				t.Errorf("%s: an access token: %v", one.what, err)
			}
		}
	}
	if n := len(l.alive); pgtest.Value[int](t, &pgtest.DB{Pool: pool}, "select count(*) from connections where state = 'authorized'") != n {
		t.Errorf("not %d connections are authorized", n)
	}
}

// reconciled is what reconciling a [lossy] service does.
var reconciled = app.Reconciled{Users: 1, Clients: 1, Revoked: 4, Disconnected: 7, Authorized: 6}

func reconcile(t *testing.T, env []string, want app.Reconciled, args ...string) {
	t.Helper()
	got := succeedJSON[app.Reconciled](t, env, "", append([]string{"restore", "reconcile"}, args...)...)
	if got.Entries == 0 {
		t.Error("no entries")
	}
	if got.Entries = 0; got != want {
		t.Errorf("%v: %+v, want %+v", args, got, want)
	}
}

// After a restore of a backup and a reconciliation with the audit log, every connection that was alive refreshes, and none that has ended
// does.
func TestReconcileAfterRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keyset := filepath.Join(dir, "keyset.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		t.Fatal(err)
	}
	keys, err := credential.LoadKeyring(keyset)
	if err != nil {
		t.Fatal(err)
	}
	before := pgtest.New(t)
	l, lose := newLossy(t, before, keys)
	script := func(name, databaseURL, keyset string) {
		t.Helper()
		c := exec.Command("../../docs/"+name, filepath.Join(dir, "backup"))
		c.Env = append(os.Environ(), "CONNECT_DATABASE_URL="+databaseURL, "CONNECT_KEYSET_FILE="+keyset)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	script("backup.sh", before.URL, keyset)
	lose()
	asCSV := filepath.Join(dir, "audit.csv")
	file, err := os.Create(asCSV)
	if err != nil {
		t.Fatal(err)
	}
	if err := audit.New(before.Pool, wait.Patient, 0).WriteCSV(t.Context(), file, audit.Filter{}, context.WithCancel); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	const acts = `select (select string_agg(grant_id || ' ' || reason || ' ' || connection_version, ';' order by grant_id, connection_version)
			from webhook_events where type = 'connection.revoked')
		|| (select string_agg(date_trunc('milliseconds', refresh_deadline)::text, ';' order by grant_id) from connections where refresh_hash = sha256(''))`
	first := ""
	list := func(db *pgtest.DB, name string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(succeed(t, env(db), "", "audit", "list", "--output", "json")), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	// The third log is that of a database that was restored and reconciled, and is restored once more before a partner has refreshed. A program
	// of release 1.0.0 has written the file.
	asJSON, again := list(before, "audit.json"), filepath.Join(dir, "again.json")
	for _, log := range []string{asJSON, asCSV, again} {
		after := pgtest.NewEmpty(t)
		script("restore.sh", after.URL, keyset)
		if may, err := postgres.MayLackCommits(t.Context(), after.Pool); err != nil || !may {
			t.Errorf("the restored database asks for no reconciliation: %t, %v", may, err)
		}
		const receipts = "select count(*) from notices where kind = 'connection_ended'"
		waiting := pgtest.Value[int](t, after, receipts)
		reconcile(t, env(after), reconciled, "--audit", log)
		if n := pgtest.Value[int](t, after, receipts); n != waiting {
			t.Errorf("%d receipts of ends, and %d before: users were told of these ends when they happened", n, waiting)
		}
		if may, err := postgres.MayLackCommits(t.Context(), after.Pool); err != nil || may {
			t.Errorf("the reconciled database asks for a reconciliation: %t, %v", may, err)
		}
		events := pgtest.Value[int](t, after, "select count(*) from webhook_events where type = 'connection.revoked'")
		if events != 11+2 { // and two of before the backup
			t.Errorf("%d events, want one for each end", events)
		}
		reconcile(t, env(after), app.Reconciled{}, "--audit", log)
		if got := pgtest.Value[string](t, after, acts); log == asJSON {
			first = got
		} else if got != first {
			t.Errorf("%s: who ended what, and when authorizations were made, is %s, want %s", log, got, first)
		}
		if log != again {
			asOlder(t, list(after, "again.json"))
		}
		l.check(t, after.Pool)
		reconcile(t, env(after), app.Reconciled{}, "--audit", log)
	}
}

// asOlder turns scopes in a file into numbers, as programs of release 1.0.0 export what this one has stored.
func asOlder(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content = regexp.MustCompile(`\{\s*"scopes": "([^"]*)"\s*\}`).ReplaceAllFunc(content, func(detail []byte) []byte {
		set, err := scope.Parse(strings.Split(string(detail), `"`)[3])
		if err != nil {
			t.Error(err)
		}
		return fmt.Appendf(nil, "{\n      \"scopes\": %d\n    }", set)
	})
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// After a failover to a replica without the last commits, and a reconciliation with the one that has them.
func TestReconcileAfterFailover(t *testing.T) {
	t.Parallel()
	config := embedded.Config{Ephemeral: true, Limits: wait.Patient}
	on := func(server *embedded.Server, err error) (*embedded.Server, *pgtest.DB) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop() })
		return server, &pgtest.DB{URL: server.URL(), Clock: new(clock.Clock)}
	}
	primary, before := on(embedded.Start(t.Context(), config))
	if _, err := migrate.Apply(t.Context(), primary.URL(), migrate.Up); err != nil {
		t.Fatal(err)
	}
	_, after := on(embedded.StartReplica(t.Context(), primary, config))
	_, witness := on(embedded.StartReplica(t.Context(), primary, config))
	for _, db := range []*pgtest.DB{before, after, witness} {
		db.Pool = db.Open(t)
	}
	has := func(replica *pgtest.DB) {
		t.Helper()
		end := pgtest.Value[string](t, before, "select pg_logical_emit_message(true, '', '')::text")
		wait.Until(t, "a replica catches up", func() bool {
			return pgtest.Value[bool](t, replica, "select pg_last_wal_replay_lsn() >= '"+end+"'")
		})
	}
	l, lose := newLossy(t, before, credential.NewTestKeyring())
	has(after)
	after.Exec(t, "alter system set primary_conninfo = ''")
	after.Exec(t, "select pg_reload_conf()")
	wait.Until(t, "the replica receives nothing", func() bool {
		return pgtest.Value[int](t, after, "select count(*) from pg_stat_wal_receiver") == 0
	})
	lose()
	has(witness)
	if err := primary.StopAtOnce(); err != nil {
		t.Fatal(err)
	}
	after.Exec(t, "select pg_promote()")
	settings := with(env(after), "CONNECT_DATABASE_READ_URL="+witness.URL)
	since := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	reconcile(t, settings, reconciled, "--since", since)
	reconcile(t, settings, app.Reconciled{}, "--since", since)
	l.check(t, after.Pool)
}

// A late reconciliation ends no connection that has begun since, and begins none that has ended since.
func TestReconcileLate(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	l, lose := newLossy(t, db, credential.NewTestKeyring())
	db.Exec(t, "create table kept as table connections")
	lose()
	log := filepath.Join(t.TempDir(), "audit.json")
	if err := os.WriteFile(log, []byte(succeed(t, env(db), "", "audit", "list", "--output", "json")), 0o600); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "update connections c set version = k.version, state = k.state, refresh_generation = k.refresh_generation, refresh_hash = k.refresh_hash, "+
		"scopes = k.scopes, authorized_at = k.authorized_at from kept k where k.user_id = c.user_id and k.client_id = c.client_id and c.client_id = $1", l.partner.ID)
	db.Exec(t, "delete from audit_log where at > (select max(authorized_at) from kept)")
	server := oauth.New(db.Pool, l.keys, oauth.DefaultSettings)
	begun := 0
	for _, one := range l.ended {
		if one.of.ID != l.partner.ID || one.what == "the user is deleted" {
			continue
		}
		userID := pgtest.Value[uuid.UUID](t, db, "select user_id from grant_directory where grant_id = $1", one.tokens[0].GrantID)
		begun++
		edgetest.Connect(t, server, l.partner, scope.All, userID)
	}
	for _, one := range l.alive {
		if err := server.Disconnect(t.Context(), edgetest.Credentials(l.partner), one.tokens[0].GrantID); err != nil {
			t.Fatal(err)
		}
	}
	reconcile(t, env(db), app.Reconciled{}, "--audit", log)
	if n := pgtest.Value[int](t, db, "select count(*) from connections where state = 'authorized'"); n != begun {
		t.Errorf("%d connections are authorized, want %d", n, begun)
	}
}

func TestReconcileUsage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	refuse(t, env(db), statusUsage, []string{"--audit", "--since"}, "restore", "reconcile")
	refuse(t, env(db), statusUsage, []string{"--audit", "--since"}, "restore", "reconcile", "--audit", "x", "--since", "2026-01-31")
	refuse(t, env(db), statusUsage, []string{"CONNECT_DATABASE_READ_URL"}, "restore", "reconcile", "--since", "2026-01-31")
	refuse(t, env(db), statusFailed, []string{"no-such-file"}, "restore", "reconcile", "--audit", "no-such-file")
	entry := `{"at":"2026-01-31T08:00:00Z","actor":"user","action":"connection.disconnected","user_id":"6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10",` +
		`"client_id":"0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11","connection_version":"2","detail":{}}`
	const header = "at,actor,action,user_id,client_id,connection_version,detail\n"
	db.Exec(t, "update database_history set reconciled = 'another'")
	for content, word := range map[string]string{
		"":                     "unexpected EOF", // of an export that failed: a list without entries is [] or the first line
		"\n":                   "unexpected EOF",
		"[" + entry:            "unexpected EOF",
		"[" + entry + ",{]":    "entry 2",
		"[{}]":                 "entry 1",
		"at,action\n":          "first line",
		header + "x,,,,,,{}\n": "entry 1",
		header + "\"":          "entry 1",
		header + "x\n":         "entry 1",
		"{}":                   "first line",
		"[" + entry + "][]":    "entry 2 of the file: something follows the list",
		"[]" + entry:           "something follows the list",

		strings.ReplaceAll(header, ",", ";"): "commas between columns, not semicolons",
		"\xff\xfe[\x00]\x00":                 "UTF-8, not UTF-16",
		"sep=,\n" + header:                   "sep=",
		`[{"at":"2026-01-31T08:00:00Z","action":"connection.authorized","detail":{}}]`: "connection.authorized",
	} {
		file := filepath.Join(t.TempDir(), "audit")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		refuse(t, env(db), statusFailed, []string{word}, "restore", "reconcile", "--audit", file)
	}
	if may, err := postgres.MayLackCommits(t.Context(), db.Pool); err != nil || !may {
		t.Errorf("a bad file reconciles: %t, %v", may, err)
	}
	for _, content := range []string{"[" + entry + "]\n", "[]", "\ufeff[]", header, "\ufeff" + header} { // of a connection that the database does not have
		if got := succeed(t, env(db), content, "restore", "reconcile", "--audit", "-"); got == "" {
			t.Error("nothing is said")
		}
	}
}
