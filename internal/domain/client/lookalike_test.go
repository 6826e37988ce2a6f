package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

func TestAlike(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"Walk Rewards", "Walk Rewards", true},
		{"Walk Rewards", "WALKREWARDS", true},
		{"Walk Rewards", "walk-rewards!", true},
		{"Walk Rewards", "Walk  Rewards", true},
		{"Walk Rewards", "Wаlk Rеwаrds", true}, // Cyrillic а and е
		{"Walk Rewards", "Ｗalk Rewards", true}, // a wide W
		{"Walk Rewards", "Walk Réwards", true},
		{"Walk Rewards", "Walk\u200dRewards", true}, // a joiner
		{"Pill Club", "PiIl CIub", true},            // capital i for l
		{"Pill Club", "pi11 c1ub", true},
		{"Modern", "Modem", true},
		{"OSLO RIDE", "0slo ride", true},
		{"Straße", "STRASSE", true},
		{"Walk Rewards", "Walk Reward", false},
		{"Walk Rewards", "Ride Rewards", false},
		{"!!!", "???", false},
		{"東京", "京都", false},
		{"कि", "का", false},
	} {
		a, b := looksOf(test.a), looksOf(test.b)
		if got := a.alike(b); got != test.want {
			t.Errorf("%q and %q: %t, want %t", test.a, test.b, got, test.want)
		}
		inCommon := slices.ContainsFunc(a.keys(), func(key int64) bool { return slices.Contains(b.keys(), key) })
		if inCommon != test.want {
			t.Errorf("%q and %q have a key in common: %t, want %t", test.a, test.b, inCommon, test.want)
		}
	}
}

func TestLookAlikes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clients := NewRegistry(db.Pool, nil)
	named := func(name string) func(*pgtest.Client) { return func(c *pgtest.Client) { c.Name = name } }
	walk, ride := db.Client(t, named("Walk Rewards")).ID, db.Client(t, named("Ride Club")).ID
	for _, test := range []struct {
		name   string
		except uuid.UUID
		want   []uuid.UUID
	}{
		{"walk rewards", uuid.Nil, []uuid.UUID{walk}},
		{"walk rewards", walk, nil},
		{"Ride Club", walk, []uuid.UUID{ride}},
		{"Swim Club", uuid.Nil, nil},
	} {
		found, err := clients.LookAlikes(t.Context(), test.name, test.except)
		if err != nil {
			t.Fatal(err)
		}
		var got []uuid.UUID
		for _, c := range found {
			got = append(got, c.ID)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.name, diff)
		}
	}
}

// A name that a program of 1.0.0 has written, which knows nothing of keys, is found before and after it has got its keys, and the one that it replaced
// is not.
func TestLookAlikesOfOlderPrograms(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clients := NewRegistry(db.Pool, nil)
	finds := func(name string, want ...uuid.UUID) {
		t.Helper()
		found, err := clients.LookAlikes(t.Context(), name, uuid.Nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []uuid.UUID
		for _, c := range found {
			got = append(got, c.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
	without := func(want int) {
		t.Helper()
		if n := pgtest.Value[int](t, db, "select count(*) from clients where looks is null or looks_of <> name"); n != want {
			t.Errorf("%d names have no keys, want %d", n, want)
		}
	}
	create := func(name string) uuid.UUID {
		t.Helper()
		created, _, err := clients.Create(t.Context(), Registration{Name: name, CallbackURL: "https://p.example/cb", Scopes: scope.All, Policy: DefaultPolicy})
		if err != nil {
			t.Fatal(err)
		}
		return created.ID
	}
	walk, ride := create("Walk Rewards"), create("Ride Club")
	without(0)
	older := db.Client(t, func(c *pgtest.Client) { c.Name = "Swim Club" }).ID
	db.Exec(t, "update clients set name = 'Run Rewards' where client_id = $1", walk)
	without(2)
	for range 2 {
		finds("swim club", older)
		finds("walk rewards")
		finds("run rewards", walk)
		finds("ride club", ride)
		if err := clients.KeyNames(t.Context()); err != nil {
			t.Fatal(err)
		}
		without(0)
	}
	if _, err := clients.Update(t.Context(), older, func(r *Registration) { r.Name = "Row Club" }); err != nil {
		t.Fatal(err)
	}
	without(0)
	finds("swim club")
	finds("row club", older)
}

// A search among 2,000 names reads those that are found, and no others.
func TestLookAlikesByIndex(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	db := pgtest.New(t)
	addPartners(t, db)
	db.Exec(t, "vacuum analyze clients")
	sent := new(pgtest.Statements)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithTracer(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if found, err := NewRegistry(pool, nil).LookAlikes(t.Context(), "partner no. 1234", uuid.Nil); err != nil || len(found) != 1 {
		t.Fatalf("%d found, %v", len(found), err)
	}
	sent.Explain(t, pool, func(sql string, plan []pgtest.PlanNode) {
		for _, node := range plan {
			if node.Table != "" && node.Read() > 1 {
				t.Errorf("%s\nreads %v rows of %s", sql, node.Read(), node.Table)
			}
		}
	})
}

// addPartners adds 2,000 clients as a program of 1.0.0 does, and gives their names keys.
func addPartners(t testing.TB, db *pgtest.DB) {
	t.Helper()
	db.Exec(t, `insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads, created_at)
		select gen_random_uuid(), 'Partner No. ' || n, 'https://p.example/cb', 7, sha256(n::text::bytea), 600, 60, 10, now() from generate_series(1, 2000) n`)
	if err := NewRegistry(db.Pool, nil).KeyNames(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The keys of names are stored, so what makes them stays: another version of Unicode, or another rule, needs a migration that empties
// clients.looks_of, and then this sum changes.
func TestLooksStay(t *testing.T) {
	t.Parallel()
	sum := sha256.New()
	for c := range rune(0x20000) { // what has letters
		_, _ = fmt.Fprint(sum, looksOf("a"+string(c)).keys())
	}
	const want = "4a7cbb95c038c62fa991c9f9559756f4e5039fc6c1813944fe7fe58cfd8dbae8"
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("the sum of the keys of characters is %s, want %s", got, want)
	}
}

// BenchmarkLookAlikes is what the check adds to the registration of another partner, beside 2,000.
func BenchmarkLookAlikes(b *testing.B) {
	db := pgtest.New(b)
	addPartners(b, db)
	clients := NewRegistry(db.Pool, nil)
	for b.Loop() {
		if found, err := clients.LookAlikes(b.Context(), "Swim Club", uuid.Nil); err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}
