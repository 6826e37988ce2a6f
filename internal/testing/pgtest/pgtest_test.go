package pgtest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	one, two := pgtest.New(t), pgtest.New(t)
	one.User(t)
	one.Clock.Advance(time.Hour)
	if n := pgtest.Value[int](t, one, "select count(*) from users"); n != 1 {
		t.Errorf("users where one was made: %d", n)
	}
	if n := pgtest.Value[int](t, two, "select count(*) from users"); n != 0 {
		t.Errorf("users of another test: %d", n)
	}
	if ahead := pgtest.Value[time.Time](t, two, "select connect_now()"); time.Until(ahead) > time.Minute {
		t.Errorf("the clock of another test moved this one to %v", ahead)
	}
}

// No test depends on how long a login takes.
func TestLoginsAreGivenTime(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(pgtest.New(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	if config.ConnectTimeout < wait.Limit {
		t.Errorf("a login may take %s", config.ConnectTimeout)
	}
}

func TestDropped(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var name string
	t.Run("a test that ends", func(t *testing.T) {
		name = pgtest.Value[string](t, pgtest.New(t), "select current_database()")
	})
	if left := pgtest.Value[bool](t, db, "select exists (select from pg_database where datname = $1)", name); left {
		t.Errorf("database %s is still there", name)
	}
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := db.Client(t, func(c *pgtest.Client) { c.Scopes = scope.CyclingDaily })
	if got := pgtest.Value[int16](t, db, "select scopes from clients where client_id = $1", c.ID); scope.Set(got) != scope.CyclingDaily {
		t.Errorf("scopes = %v", scope.Set(got))
	}
	u := db.User(t, func(u *pgtest.User) { u.Timezone = "Pacific/Auckland" })
	if got := pgtest.Value[uuid.UUID](t, db, "select user_id from users where timezone = 'Pacific/Auckland'"); got != u.ID {
		t.Errorf("user = %v, want %v", got, u.ID)
	}
}

func TestTimeHardlyPassesByItself(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	start := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	last := start
	check := func(when string) {
		t.Helper()
		before := db.Now().Add(-time.Millisecond) // PostgreSQL has microseconds
		at := pgtest.Value[time.Time](t, db, "select connect_now()")
		if at.Before(before) || at.After(db.Now().Add(time.Millisecond)) || at.Before(last) {
			t.Errorf("%s it is %s, want %s, after %s", when, at, db.Now(), last)
		}
		last = at
	}
	db.StartAt(t, start)
	check("at first")
	db.Clock.Advance(time.Hour)
	last = start.Add(time.Hour)
	check("an hour later")
	last = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	db.SetTime(last)
	last = last.Add(-time.Millisecond)
	check("in the next year")
}
