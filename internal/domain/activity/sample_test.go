package activity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/refusal"
)

// setClock makes it this time in UTC, now and a few seconds on.
func (w world) setClock(text string) { w.Clock.Set(time.Until(clock(text))) }

func TestSampleData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setClock("2026-05-10T12:00:00")
	user := w.newUser(t, "UTC")
	result, err := w.SampleData(t.Context(), user, 365, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := result.DailySteps.Inserted; n < 330 || n >= 365 {
		t.Errorf("%d dates with steps of 365: want a few without", n)
	}
	if n := result.CyclingActivities.Inserted; n < 20 || n > 500 {
		t.Errorf("%d rides in a year", n)
	}
	steps, err := w.DailySteps(t.Context(), user, activity.Range{From: day("2025-05-01"), To: day("2026-05-12")})
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, s := range steps {
		total += s.Steps
	}
	if mean := total / int64(len(steps)); mean < 4000 || mean > 14000 {
		t.Errorf("%d steps a day", mean)
	}
	if first, last := steps[0].Date, steps[len(steps)-1].Date; first.Before(day("2025-05-11")) || last.After(day("2026-05-10")) {
		t.Errorf("dates from %s to %s", first, last)
	}
}

// The same seed is the same person: other days and another user change nothing of a date.
func TestSampleDataIsDeterministic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	month := activity.Range{From: day("2026-04-01"), To: day("2026-04-30")}
	read := func(now string, days int, seed uint64) ([]activity.Steps, []activity.CyclingDay) {
		t.Helper()
		w.setClock(now)
		user := w.newUser(t, "UTC")
		if _, err := w.SampleData(t.Context(), user, days, seed); err != nil {
			t.Fatal(err)
		}
		steps, err := w.DailySteps(t.Context(), user, month)
		if err != nil {
			t.Fatal(err)
		}
		rides, err := w.CyclingDaily(t.Context(), user, month)
		if err != nil {
			t.Fatal(err)
		}
		return steps, rides
	}
	steps, rides := read("2026-05-10T12:00:00", 60, 7)
	laterSteps, laterRides := read("2026-06-20T07:00:00", 400, 7)
	if diff := cmp.Diff(steps, laterSteps); diff != "" {
		t.Errorf("steps (-first +later):\n%s", diff)
	}
	if diff := cmp.Diff(rides, laterRides); diff != "" {
		t.Errorf("rides (-first +later):\n%s", diff)
	}
	if otherSteps, _ := read("2026-05-10T12:00:00", 60, 8); cmp.Equal(steps, otherSteps) {
		t.Error("another seed is the same person")
	}
}

// Today is the user's, and only as far as it has come.
func TestSampleDataToday(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "Pacific/Auckland") // 12 hours ahead in May
	today := activity.Range{From: day("2026-05-11"), To: day("2026-05-11")}
	var last int64
	for _, at := range []string{"2026-05-10T20:00:00", "2026-05-10T23:00:00", "2026-05-11T03:00:00"} {
		w.setClock(at)
		if _, err := w.SampleData(t.Context(), user, 1, 2); err != nil {
			t.Fatal(err)
		}
		steps, err := w.DailySteps(t.Context(), user, today)
		if err != nil {
			t.Fatal(err)
		}
		if len(steps) != 1 || steps[0].Steps <= last {
			t.Fatalf("at %s: %v, want more than %d steps", at, steps, last)
		}
		last = steps[0].Steps
	}
	if got := w.stored(t, "daily_steps"); len(got) != 1 || !strings.HasPrefix(got[0], "2026-05-11 ") {
		t.Errorf("stored: %v", got)
	}
}

func TestSampleDataRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	if _, err := w.SampleData(t.Context(), uuid.New(), 1, 1); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("unknown user: %v", err)
	}
	for _, days := range []int{-1, 0, 3651} {
		if _, err := w.SampleData(t.Context(), user, days, 1); err == nil {
			t.Errorf("%d days were taken", days)
		}
	}
}
