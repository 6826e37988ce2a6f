package oauth

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// PostgreSQL need not know a user's time zone. A user whose zone the program does not know either has the day of UTC.
func TestUnknownTimezone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ timezone, wantDay, wantLater string }{
		{"Mars/Olympus", "2026-03-10", "2026-03-12"}, {"Local", "2026-03-10", "2026-03-12"}, {"../../etc/passwd", "2026-03-10", "2026-03-12"},
		{"Asia/Calcutta", "2026-03-11", "2026-03-12"}, {"US/Pacific", "2026-03-10", "2026-03-11"}, // former names
	} {
		t.Run(test.timezone, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.user = f.newUser(t, test.timezone)
			f.db.SetTime(time.Date(2026, 3, 10, 23, 0, 0, 0, time.UTC))
			tokens := f.connect(t, scope.All)
			if got := tokens.HistoryFrom.Format(time.DateOnly); got != test.wantDay {
				t.Errorf("history_from %s, want %s", got, test.wantDay)
			}
			f.works(t, tokens)

			later := time.Date(2026, 3, 12, 5, 0, 0, 0, time.UTC)
			changed, err := Replay(t.Context(), f.pool, []Act{{
				UserID: f.user, ClientID: f.client.ID, Version: tokens.ConnectionVersion + 2, Action: "connection.authorized", Actor: "client",
				Scopes: scope.All, At: later, Until: later,
			}})
			if err != nil || changed["connection.authorized"] != 1 {
				t.Fatalf("replayed: %v, %v", changed, err)
			}
			if got := pgtest.Value[time.Time](t, f.db, "select history_from from connections"); got.Format(time.DateOnly) != test.wantLater {
				t.Errorf("history_from after the replay %s, want %s", got.Format(time.DateOnly), test.wantLater)
			}
		})
	}
}

// interruption acts before a pool sends a statement.
type interruption struct {
	statement string // its name in sql/
	act       func()
}

func (i interruption) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "-- name: "+i.statement+" ") {
		i.act()
	}
	return ctx
}

func (interruption) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// interrupted is a server that is interrupted before a statement.
func (f *fixture) interrupted(t *testing.T, statement string, act func()) *Server {
	t.Helper()
	pool, err := postgres.Open(t.Context(), f.db.URL, postgres.WithClock(f.db.Clock), postgres.WithTracer(interruption{statement, act}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return New(pool, f.keys, f.settings)
}

// Specification 3.1: the statement that decides the request sees that the user's day is over, also if it began after Allow had looked.
func TestMidnightDuringAllow_3_1(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		timezone  string
		at        time.Time // of the consent; the statement of Allow begins twenty seconds later
		wantEnded bool
	}{
		{"Europe/Berlin", time.Date(2026, 3, 10, 22, 59, 50, 0, time.UTC), true},
		{"Europe/Berlin", time.Date(2026, 3, 10, 22, 58, 50, 0, time.UTC), false},
		{"Mars/Olympus", time.Date(2026, 3, 10, 23, 59, 50, 0, time.UTC), true},
		{"America/Sao_Paulo", time.Date(2018, 11, 4, 2, 59, 50, 0, time.UTC), true},  // 00:00 became 01:00
		{"America/Sao_Paulo", time.Date(2018, 2, 18, 1, 59, 50, 0, time.UTC), false}, // 00:00 became 23:00
		{"America/Santiago", time.Date(2026, 9, 6, 3, 59, 50, 0, time.UTC), true},    // 00:00 becomes 01:00
		{"Asia/Beirut", time.Date(2026, 3, 28, 21, 59, 50, 0, time.UTC), true},       // 00:00 becomes 01:00
		{"Africa/Cairo", time.Date(2026, 4, 23, 21, 59, 50, 0, time.UTC), true},      // 00:00 becomes 01:00
		{"Africa/Cairo", time.Date(2026, 10, 29, 20, 59, 50, 0, time.UTC), false},    // 00:00 becomes 23:00
		{"Pacific/Apia", time.Date(2011, 12, 30, 9, 59, 50, 0, time.UTC), true},      // the 30th was skipped
	} {
		t.Run(test.timezone+" "+test.at.Format(time.DateTime), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.user = f.newUser(t, test.timezone)
			f.db.SetTime(test.at)
			// AddConnection is before the statement that decides the request.
			server := f.interrupted(t, "AddConnection", func() { f.db.Clock.Advance(20 * time.Second) })
			id, browser := f.consent(t, scope.All)
			location, err := server.Allow(t.Context(), id, browser, "")
			if errors.Is(err, ErrRequestEnded) != test.wantEnded || errors.Is(err, ErrDayOver) != test.wantEnded {
				t.Errorf("allow: %q, %v", location, err)
			}
			n := pgtest.Value[int](t, f.db, "select count(*)::int from audit_log where action = 'consent.allowed'")
			if n != map[bool]int{false: 1}[test.wantEnded] {
				t.Errorf("%d consents in the audit log", n)
			}
		})
	}
}
