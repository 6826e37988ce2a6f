package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

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
		if got := looksOf(test.a).alike(looksOf(test.b)); got != test.want {
			t.Errorf("%q and %q: %t, want %t", test.a, test.b, got, test.want)
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

// BenchmarkLookAlikes is what the check adds to the registration of another partner, beside 2,000.
func BenchmarkLookAlikes(b *testing.B) {
	db := pgtest.New(b)
	db.Exec(b, `insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads, created_at)
		select gen_random_uuid(), 'Partner No. ' || n, 'https://p.example/cb', 7, sha256(n::text::bytea), 600, 60, 10, now() from generate_series(1, 2000) n`)
	clients := NewRegistry(db.Pool, nil)
	for b.Loop() {
		if found, err := clients.LookAlikes(b.Context(), "Swim Club", uuid.Nil); err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}
