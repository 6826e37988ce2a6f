// Package sdktest holds tests of the SDKs that need what the SDKs do not depend on.
package sdktest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"connect-svc/internal/testing/pgtest"
	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/connect/pgstore"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var (
	oldKey = bytes.Repeat([]byte("o"), pgstore.KeyBytes)
	newKey = bytes.Repeat([]byte("n"), pgstore.KeyBytes)
)

// open is the store of another process on the database.
func open(t *testing.T, db *pgtest.DB, keys ...[]byte) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), pgstore.Schema); err != nil {
		t.Fatal(err)
	}
	partners := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = partners.Close() })
	store, err := pgstore.New(partners, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return store, pool
}

func take(t *testing.T, store *pgstore.Store, key string) connect.Lock {
	t.Helper()
	lock, err := store.Lock(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func save(t *testing.T, lock connect.Lock, c connect.Connection) {
	t.Helper()
	if err := lock.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func example() connect.Connection {
	return connect.Connection{
		GrantID: uuid.MustParse("7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4"), Version: "3", HistoryFrom: connect.Day(2026, time.November, 20),
		Scope: "daily_steps:read", State: connect.StateActive, AccessToken: "svca_a", RefreshToken: "svcr2_r",
		UseUntil:     time.Date(2026, time.November, 21, 10, 0, 0, 0, time.UTC),
		FormerGrants: []uuid.UUID{uuid.MustParse("1c9e6679-7425-40de-944b-e07fc1f90ae7")},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, pool := open(t, pgtest.NewEmpty(t), oldKey)
	if _, err := store.Load(ctx, "ada"); !errors.Is(err, connect.ErrNotConnected) {
		t.Errorf("nothing there: %v", err)
	}
	lock := take(t, store, "ada")
	save(t, lock, example())
	for _, load := range []func() (connect.Connection, error){
		func() (connect.Connection, error) { return store.Load(ctx, "ada") },
		func() (connect.Connection, error) { return lock.Load(ctx) },
	} {
		got, err := load()
		if diff := cmp.Diff(example(), got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	if keys, err := store.KeysOf(ctx, example().GrantID.String()); err != nil || !cmp.Equal(keys, []string{"ada"}) {
		t.Errorf("the keys of the grant: %v, %v", keys, err)
	}
	var row string
	if err := pool.QueryRow(ctx, "select encode(sealed, 'escape') || key || state from connect_connections").Scan(&row); err != nil ||
		strings.Contains(row, "svca_") || strings.Contains(row, "svcr2_") {
		t.Errorf("a token lies open in the row, or %v", err)
	}

	// The service began anew, such as a sandbox with the same seed: the grant is the same, and its versions begin again.
	anew := example()
	anew.Version, anew.RefreshToken = "1", "svcr2_anew"
	save(t, lock, anew)
	if got, err := store.Load(ctx, "ada"); err != nil || got.Version != "1" || got.RefreshToken != "svcr2_anew" {
		t.Errorf("the user connected again, and the store has %v, %v", got, err)
	}

	// A row does not open under the key of another.
	if _, err := pool.Exec(ctx, "update connect_connections set key = 'eve'"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(ctx, "eve"); err == nil {
		t.Error("a row opens in the place of another")
	}
	if err := lock.Delete(ctx); err != nil {
		t.Error(err)
	}
	lock.Unlock()
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	before, _ := open(t, db, oldKey)
	lock := take(t, before, "ada")
	save(t, lock, example())
	lock.Unlock()

	between, _ := open(t, db, newKey, oldKey)
	lock = take(t, between, "ada")
	c, err := lock.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	save(t, lock, c)
	lock.Unlock()

	after, _ := open(t, db, newKey)
	if _, err := after.Load(t.Context(), "ada"); err != nil {
		t.Error(err)
	}
	if _, err := before.Load(t.Context(), "ada"); err == nil {
		t.Error("the old key opens what the new one sealed")
	}
	if _, err := pgstore.New(nil, []byte("short")); err == nil {
		t.Error("a short key is taken")
	}
	if _, err := pgstore.New(nil); err == nil {
		t.Error("no key is taken")
	}
}

// Two processes: one waits for the other, and for no other key.
func TestLockIsThatOfAllProcesses(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	one, _ := open(t, db, oldKey)
	other, pool := open(t, db, oldKey)
	lock := take(t, one, "ada")
	take(t, other, "bob").Unlock()

	got := make(chan error, 1)
	go func() {
		lock, err := other.Lock(context.WithoutCancel(t.Context()), "ada")
		if err == nil {
			lock.Unlock()
		}
		got <- err
	}()
	waiting(t, pool)
	select {
	case err := <-got:
		t.Fatalf("two hold the lock: %v", err)
	default:
	}
	lock.Unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}

	// A caller that stops waiting leaves nothing behind.
	lock = take(t, one, "ada")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, err := other.Lock(ctx, "ada"); got <- err }()
	waiting(t, pool)
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	lock.Unlock()
	take(t, one, "ada").Unlock()
}

// A session that breaks gives its lock back; what its holder learned is stored all the same, unless a newer connection is
// there.
func TestSessionBreaks(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	one, _ := open(t, db, oldKey)
	other, pool := open(t, db, oldKey)
	lock := take(t, one, "ada")
	breakSession(t, pool)
	theirs := take(t, other, "ada")
	doubt := example()
	doubt.State = connect.StateUncertain
	save(t, theirs, doubt)
	theirs.Unlock()
	if err := lock.Save(t.Context(), example()); err == nil {
		t.Error("a broken session saves")
	}
	save(t, lock, example()) // the second try of the client
	lock.Unlock()
	if got, err := other.Load(t.Context(), "ada"); err != nil || got.State != connect.StateActive {
		t.Errorf("%v, %v", got, err)
	}

	lock = take(t, one, "ada")
	breakSession(t, pool)
	theirs = take(t, other, "ada")
	newer := example()
	newer.Version, newer.RefreshToken = "10", "svcr2_newer" // a number, not a text
	save(t, theirs, newer)
	theirs.Unlock()
	_ = lock.Save(t.Context(), example())
	save(t, lock, example())
	lock.Unlock()
	if got, err := other.Load(t.Context(), "ada"); err != nil || got.RefreshToken != "svcr2_newer" {
		t.Errorf("an older version replaced a newer one: %v, %v", got, err)
	}
}

// A process that lost the lock does not send the refresh token: another one may have sent it since. So the note that it is on its way
// is stored in the session of the lock, or not at all.
func TestLostLockSendsNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	one, _ := open(t, db, oldKey)
	other, pool := open(t, db, oldKey)
	lock := take(t, one, "ada")
	save(t, lock, example())
	breakSession(t, pool)
	theirs := take(t, other, "ada")
	next := example()
	next.RefreshToken = "svcr2_next"
	save(t, theirs, next)
	theirs.Unlock()
	sent := example()
	sent.State = connect.StateRefreshing
	for range 3 {
		if err := lock.Save(t.Context(), sent); err == nil {
			t.Error("a token may be sent without the lock")
		}
	}
	lock.Unlock()
	if got, err := other.Load(t.Context(), "ada"); err != nil || got.RefreshToken != "svcr2_next" {
		t.Errorf("%v, %v: the new token is lost", got, err)
	}
}

// breakSession ends the session that holds a lock.
func breakSession(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted
		and database = (select oid from pg_database where datname = current_database())`); err != nil {
		t.Fatal(err)
	}
}

// waiting returns when a session waits for an advisory lock.
func waiting(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for n := 0; n == 0; {
		if err := pool.QueryRow(t.Context(), `select count(*) from pg_locks where locktype = 'advisory' and not granted
			and database = (select oid from pg_database where datname = current_database())`).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}

// Two processes take turns: slots lie apart whoever gets them, and a hold is for both.
func TestPaceIsThatOfAllProcesses(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	one, pool := open(t, db, oldKey)
	other, _ := open(t, db, oldKey)
	pace := func(store *pgstore.Store, client string, slots int, hold time.Duration) time.Time {
		t.Helper()
		first, err := store.Pace(t.Context(), client, slots, time.Minute, hold)
		if err != nil {
			t.Fatal(err)
		}
		return time.Now().Add(first)
	}
	// The statements take far less than a slot.
	apart := func(what string, a, b time.Time, want time.Duration) {
		t.Helper()
		if d := b.Sub(a).Round(30 * time.Second); d != want {
			t.Errorf("%s: %v apart, want %v", what, d, want)
		}
	}
	begun := time.Now()
	first := pace(one, "a", 3, 0)
	apart("the first slot", begun, first, 0)
	apart("the slots of another process", first, pace(other, "a", 1, 0), 3*time.Minute)
	apart("another registration", begun, pace(other, "b", 1, 0), 0)
	apart("a hold", time.Now(), pace(other, "b", 1, 5*time.Minute), 5*time.Minute)
	apart("after a hold", time.Now(), pace(one, "b", 1, 0), 6*time.Minute)
	apart("a first slot with a hold", time.Now(), pace(one, "c", 2, 2*time.Minute), 2*time.Minute)
	// A clock that was set back.
	if _, err := pool.Exec(t.Context(), "update connect_pace set last_at = now() + interval '1 year'"); err != nil {
		t.Fatal(err)
	}
	apart("a slot of a wrong clock", time.Now(), pace(one, "a", 2, 0), 10*time.Minute)
	apart("after it", time.Now(), pace(one, "a", 1, 0), 10*time.Minute)
}

// The schema of the package's documentation is the one that is used, and that of the TypeScript SDK.
func TestDocumentedSchema(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../sdk/go/connect/pgstore/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	typescript, err := os.ReadFile("../../../sdk/typescript/src/pgstore.ts")
	if err != nil || !strings.Contains(string(typescript), "`"+pgstore.Schema+"`") {
		t.Errorf("TypeScript has another schema (%v)", err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "//"), "\t"), "--")
		documented[strings.Join(strings.Fields(line), " ")] = true
	}
	for line := range strings.Lines(pgstore.Schema) {
		if line = strings.Join(strings.Fields(line), " "); !documented[line] {
			t.Errorf("not documented: %s", line)
		}
	}
}
