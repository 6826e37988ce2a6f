package activity_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is one test's database and the activity in it.
type world struct {
	*pgtest.DB
	*activity.Store
}

func newWorld(t testing.TB) world {
	t.Helper()
	db := pgtest.New(t)
	settings := activity.Settings{CursorLifetime: 15 * time.Minute}
	return world{db, activity.New(db.Pool, credential.NewTestKeyring(), settings)}
}

// tester is a test or one check of a property.
type tester interface {
	rapid.TB
	Context() context.Context
}

// newUser registers a user in a time zone.
func (w world) newUser(t tester, timezone string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	if _, err := w.Pool.Exec(t.Context(), `insert into users (user_id, email, timezone, registered_on, created_at)
		values ($1, $2, $3, '2020-01-01', now())`, id, id.String()+"@user.example", timezone); err != nil {
		t.Fatal(err)
	}
	return id
}

// reader reads a user's activity as some client, in May 2026 and since long ago.
func (w world) reader(user uuid.UUID) activity.Reader {
	return activity.Reader{
		UserID: user, ClientID: uuid.New(), ConnectionVersion: 1,
		HistoryFrom: day("2020-01-01"), RegisteredOn: day("2020-01-01"), Now: clock("2026-05-10T12:00:00"),
	}
}

func (w world) putSteps(t testing.TB, user uuid.UUID, date string, steps int) {
	t.Helper()
	record := activity.StepsRecord{UserID: user, Date: day(date), Steps: steps}
	if _, err := w.Put(t.Context(), activity.Batch{DailySteps: []activity.StepsRecord{record}}); err != nil {
		t.Fatal(err)
	}
}

func (w world) putRides(t testing.TB, rides ...activity.RideRecord) {
	t.Helper()
	if _, err := w.Put(t.Context(), activity.Batch{CyclingActivities: rides}); err != nil {
		t.Fatal(err)
	}
}

// day reads a date YYYY-MM-DD.
func day(text string) time.Time { return parse(time.DateOnly, text) }

// clock reads a clock time YYYY-MM-DDTHH:MM:SS with or without a fraction.
func clock(text string) time.Time { return parse("2006-01-02T15:04:05", text) }

func parse(layout, text string) time.Time {
	t, err := time.Parse(layout, text)
	if err != nil {
		panic(err)
	}
	return t
}
