package activity_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

var both = []activity.Adjusted{activity.AdjustedSteps, activity.AdjustedCycling}

// A correction is taken back once, and the log says by whom.
func TestRemoveAdjustment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	ada := work.WithActor(t.Context(), "ada")
	for _, dataset := range both {
		made, err := w.Adjust(t.Context(), dataset, activity.AdjustmentRecord{UserID: user, Date: day("2026-03-09"), Delta: -5, Note: "counted twice"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.GetAdjustment(t.Context(), dataset, user, made.ID); err != nil || got != made {
			t.Errorf("%s: %+v, %v; want %+v", dataset, got, err, made)
		}
		for _, want := range []bool{true, false} {
			if removed, err := w.RemoveAdjustment(ada, dataset, user, made.ID); err != nil || removed != want {
				t.Errorf("%s: removed %t, %v; want %t", dataset, removed, err, want)
			}
		}
		if _, err := w.GetAdjustment(t.Context(), dataset, user, made.ID); !errors.Is(err, activity.ErrNoAdjustment) {
			t.Errorf("%s: after the removal: %v", dataset, err)
		}
		noted := pgtest.Value[int](t, w.DB, `select count(*)::int from audit_log where actor = 'ada' and action = 'activity.adjustment_removed'
			and subject = $1 and detail = jsonb_build_object('dataset', $2::text, 'adjustment_id', $3::text, 'date', '2026-03-09')`, user, string(dataset), made.ID)
		if noted != 1 {
			t.Errorf("%s: %d entries in the audit log", dataset, noted)
		}
	}
	if _, err := w.RemoveAdjustment(ada, activity.AdjustedSteps, uuid.New(), uuid.New()); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("of nobody: %v", err)
	}
}

// Support sees the same day as partners read.
func TestDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	date := day("2026-03-09")
	look := func(dataset activity.Adjusted) activity.Day {
		t.Helper()
		got, err := w.Day(t.Context(), dataset, user, date)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, dataset := range both {
		if got := look(dataset); got != (activity.Day{}) {
			t.Errorf("%s: nothing is recorded, and the day is %+v", dataset, got)
		}
	}
	w.putSteps(t, user, "2026-03-09", 12_345)
	w.putRides(t,
		activity.RideRecord{UserID: user, SourceID: "a", Start: clock("2026-03-09T00:00:00"), DistanceMeters: 1000},
		activity.RideRecord{UserID: user, SourceID: "b", Start: clock("2026-03-09T23:59:59.999999"), DistanceMeters: 200},
		activity.RideRecord{UserID: user, SourceID: "c", Start: clock("2026-03-10T00:00:00"), DistanceMeters: 40},
	)
	for _, delta := range []int{-2000, 100} {
		for _, dataset := range both {
			if _, err := w.Adjust(t.Context(), dataset, activity.AdjustmentRecord{UserID: user, Date: date, Delta: delta}); err != nil {
				t.Fatal(err)
			}
		}
	}
	steps, cycling := look(activity.AdjustedSteps), look(activity.AdjustedCycling)
	want := []activity.Day{{IsRecorded: true, Recorded: 12_345, Adjusted: -1900}, {IsRecorded: true, Recorded: 1200, Adjusted: -1900}}
	if diff := cmp.Diff(want, []activity.Day{steps, cycling}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	reader := w.reader(user)
	read, err := w.DailySteps(t.Context(), reader.UserID, activity.Range{From: date, To: date})
	if err != nil || len(read) != 1 || read[0].Steps != steps.Total() || steps.With(-20_000).Total() != 0 {
		t.Errorf("a partner reads %+v, %v; support sees %d", read, err, steps.Total())
	}
	rides, err := w.CyclingDaily(t.Context(), reader.UserID, activity.Range{From: date, To: date})
	if err != nil || len(rides) != 1 || rides[0].DistanceMeters != cycling.Total() || cycling.Total() != 0 || cycling.With(1000).Total() != 300 {
		t.Errorf("a partner reads %+v, %v; support sees %d", rides, err, cycling.Total())
	}
	if _, err := w.Day(t.Context(), activity.AdjustedSteps, uuid.New(), date); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("nobody's day: %v", err)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	w.newUser(t, "UTC")
	if _, err := w.SampleData(t.Context(), user, 20, 1); err != nil {
		t.Fatal(err)
	}
	for _, dataset := range both {
		if _, err := w.Adjust(t.Context(), dataset, activity.AdjustmentRecord{UserID: user, Date: day("2026-03-09"), Delta: 1}); err != nil {
			t.Fatal(err)
		}
	}
	rides := pgtest.Value[int](t, w.DB, "select count(*)::int from cycling_activities")
	days := pgtest.Value[int](t, w.DB, "select count(*)::int from daily_steps")
	for most, want := range map[int]activity.Amount{1000: {Days: days, Rides: rides, Adjustments: 2}, 1: {Days: 1, Rides: 1, Adjustments: 1}} {
		if got, err := w.Count(t.Context(), user, most); err != nil || got != want {
			t.Errorf("as far as %d: %+v, %v; want %+v", most, got, err, want)
		}
	}
	if _, err := w.Count(t.Context(), uuid.New(), 1); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("of nobody: %v", err)
	}
}

// The newest corrections come first, page by page, also those of one moment.
func TestLatestAdjustments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	for i, dataset := range []activity.Adjusted{
		activity.AdjustedSteps, activity.AdjustedCycling, activity.AdjustedSteps, activity.AdjustedSteps, activity.AdjustedCycling, activity.AdjustedCycling,
	} {
		if _, err := w.Adjust(t.Context(), dataset, activity.AdjustmentRecord{UserID: user, Date: day("2026-03-09").AddDate(0, 0, -i), Delta: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	// Two pairs of one moment.
	moments := map[int]time.Time{1: clock("2026-04-01T10:00:00"), 2: clock("2026-04-01T10:00:00"), 3: clock("2026-04-02T10:00:00"),
		4: clock("2026-04-02T10:00:00"), 5: clock("2026-04-02T10:00:00"), 6: clock("2026-04-03T10:00:00")}
	for delta, at := range moments {
		w.Exec(t, "update step_corrections set created_at = $1 where delta = $2", at, delta)
		w.Exec(t, "update cycling_adjustments set created_at = $1 where delta_meters = $2", at, delta)
	}
	all, err := w.LatestAdjustments(t.Context(), user, both, page.Key{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(all); i++ {
		if all[i].CreatedAt.After(all[i-1].CreatedAt) {
			t.Errorf("%+v comes after %+v", all[i], all[i-1])
		}
	}
	for _, test := range []struct {
		datasets []activity.Adjusted
		want     int
	}{{both, 6}, {both[:1], 3}, {both[1:], 3}, {nil, 0}} {
		var got []activity.Adjustment
		for after := (page.Key{}); ; {
			found, err := w.LatestAdjustments(t.Context(), user, test.datasets, after, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 {
				break
			}
			got, after = append(got, found[0]), found[0].LatestKey()
		}
		if len(got) != test.want {
			t.Errorf("%v: %d adjustments, want %d", test.datasets, len(got), test.want)
		}
		if test.want == len(all) {
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("page by page (-want +got):\n%s", diff)
			}
		}
	}
}
