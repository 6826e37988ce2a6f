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
		if got := alike(test.a, test.b); got != test.want || alike(test.b, test.a) != got {
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
