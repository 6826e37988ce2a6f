package activity_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

// Support sees what is recorded, what was corrected, and exactly what partners read.
func TestView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	ada := work.WithActor(t.Context(), "ada")
	w.putSteps(t, user, "2026-03-08", 0)
	w.putSteps(t, user, "2026-03-09", 1_000)
	w.putSteps(t, user, "2026-02-28", 7)
	w.putSteps(t, user, "2026-04-01", 7)
	ride := activity.RideRecord{UserID: user, SourceID: "a", Start: clock("2026-03-09T23:59:59.999999"), DistanceMeters: 1200}
	outside := activity.RideRecord{UserID: user, SourceID: "b", Start: clock("2026-04-01T00:00:00"), DistanceMeters: 40}
	w.putRides(t, ride, outside)
	adjust := func(dataset activity.Adjusted, date string, delta int) activity.Adjustment {
		t.Helper()
		made, err := w.Adjust(ada, dataset, activity.AdjustmentRecord{UserID: user, Date: day(date), Delta: delta, Note: "n"})
		if err != nil {
			t.Fatal(err)
		}
		made.Actor = "ada"
		return made
	}
	lowered, alone := adjust(activity.AdjustedSteps, "2026-03-09", -2_000), adjust(activity.AdjustedCycling, "2026-03-31", 50)
	adjust(activity.AdjustedSteps, "2026-04-01", 1)
	removed := adjust(activity.AdjustedCycling, "2026-03-09", -5)
	grace := work.WithActor(t.Context(), "grace")
	if _, err := w.RemoveAdjustment(grace, activity.AdjustedCycling, user, removed.ID); err != nil {
		t.Fatal(err)
	}
	batch := activity.AdjustmentRecord{UserID: user, ID: uuid.New(), Date: day("2026-03-08"), Delta: 3, Note: "batch"}
	if _, err := w.Put(ada, activity.Batch{StepCorrections: []activity.AdjustmentRecord{batch}}); err != nil {
		t.Fatal(err)
	}

	march := activity.Range{From: day("2026-03-01"), To: day("2026-03-31")}
	got, err := w.View(work.WithActor(t.Context(), "linus"), user, march)
	if err != nil {
		t.Fatal(err)
	}
	seen := func(n int64) *int64 { return &n }
	want := []activity.ViewedDay{
		{Date: day("2026-03-08"), Steps: activity.ViewedFigures{Day: activity.Day{IsRecorded: true, Adjusted: 3}, Seen: seen(3)}},
		{
			Date:    day("2026-03-09"),
			Steps:   activity.ViewedFigures{Day: activity.Day{IsRecorded: true, Recorded: 1_000, Adjusted: -2_000}, Seen: seen(0)},
			Cycling: activity.ViewedFigures{Day: activity.Day{IsRecorded: true, Recorded: 1_200}, Seen: seen(1_200)},
		},
		{Date: day("2026-03-31"), Cycling: activity.ViewedFigures{Day: activity.Day{Adjusted: 50}}},
	}
	if diff := cmp.Diff(want, got.Days); diff != "" {
		t.Errorf("days (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]activity.RecordedRide{{SourceID: "a", StartTime: ride.Start, DistanceMeters: 1200}}, got.Rides); diff != "" {
		t.Errorf("rides (-want +got):\n%s", diff)
	}
	if len(got.Adjustments) != 3 || got.Adjustments[0].ID != batch.ID || got.Adjustments[0].Actor != "" ||
		got.Adjustments[1] != lowered || got.Adjustments[2] != alone {
		t.Errorf("adjustments: %+v", got.Adjustments)
	}
	if len(got.Removed) != 1 || got.Removed[0].ID != removed.ID || got.Removed[0].Actor != "grace" || !got.Removed[0].Date.Equal(removed.Date) {
		t.Errorf("removed: %+v", got.Removed)
	}
	if !got.Complete {
		t.Error("it is not complete")
	}

	// Written again, an adjustment is removed no more. Its actor is the last one.
	again := removed.AdjustmentRecord
	if _, err := w.Adjust(grace, activity.AdjustedCycling, again); err != nil {
		t.Fatal(err)
	}
	latest, err := w.LatestAdjustments(t.Context(), user, both, page.Key{}, 10)
	if err != nil || latest[0].ID != again.ID || latest[0].Actor != "grace" {
		t.Errorf("latest: %+v, %v", latest, err)
	}
	if got, err := w.View(ada, user, march); err != nil || len(got.Removed) != 0 {
		t.Errorf("removed: %+v, %v", got.Removed, err)
	}
}

// The view has the totals that partners read, whatever is recorded and corrected.
func TestViewIsWhatPartnersRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	w.Exec(t, `insert into daily_steps select $1, date, n * 37 % 900 from generate_series('2026-03-01'::date, '2026-03-31', '2 days')
		with ordinality as d (date, n)`, user)
	w.Exec(t, `insert into cycling_activities (user_id, start_time, distance_meters, source_id)
		select $1, at, n * 53 % 700, at::text from generate_series('2026-03-01'::timestamp, '2026-03-31', '17 hours') with ordinality as d (at, n)`, user)
	w.Exec(t, `insert into step_corrections select $1, date, gen_random_uuid(), -n * 41 % 900, '', now()
		from generate_series('2026-03-01'::date, '2026-03-31', '3 days') with ordinality as d (date, n)`, user)
	w.Exec(t, "insert into cycling_adjustments select user_id, date, gen_random_uuid(), delta - 100, '', now() from step_corrections")
	march := activity.Range{From: day("2026-03-01"), To: day("2026-03-31")}
	view, err := w.View(t.Context(), user, march)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := w.DailySteps(t.Context(), user, march)
	if err != nil {
		t.Fatal(err)
	}
	cycling, err := w.CyclingDaily(t.Context(), user, march)
	if err != nil {
		t.Fatal(err)
	}
	read, seen := map[string]int64{}, map[string]int64{}
	for _, row := range steps {
		read["steps of "+row.Date.Format(time.DateOnly)] = row.Steps
	}
	for _, row := range cycling {
		read["cycling of "+row.Date.Format(time.DateOnly)] = row.DistanceMeters
	}
	for _, one := range view.Days {
		for name, figures := range map[string]activity.ViewedFigures{"steps": one.Steps, "cycling": one.Cycling} {
			if figures.Seen != nil {
				seen[name+" of "+one.Date.Format(time.DateOnly)] = *figures.Seen
			}
			if (figures.Seen != nil) != figures.IsRecorded || figures.Seen != nil && *figures.Seen != figures.Total() {
				t.Errorf("%s of %v: %+v", name, one.Date, figures)
			}
		}
	}
	if diff := cmp.Diff(read, seen); diff != "" || len(read) < 30 {
		t.Errorf("%d totals (-read +seen):\n%s", len(read), diff)
	}
}

// The audit log has each view before it is shown, once a minute for each range and operator.
func TestViewsAreAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	views := func() int64 {
		return pgtest.Value[int64](t, w.DB, "select count(*) from audit_log where subject = $1 and user_id = $1 and action = 'activity.viewed'", user)
	}
	view := func(name, to string, want int64) {
		t.Helper()
		if _, err := w.View(work.WithActor(t.Context(), name), user, activity.Range{From: day("2026-03-01"), To: day(to)}); err != nil {
			t.Fatal(err)
		}
		if got := views(); got != want {
			t.Errorf("%s to %s: %d entries, want %d", name, to, got, want)
		}
	}
	view("ada", "2026-03-31", 1)
	view("ada", "2026-03-31", 1)
	view("ada", "2026-03-30", 2)
	view("grace", "2026-03-31", 3)
	w.Clock.Advance(time.Minute)
	view("ada", "2026-03-31", 4)
	if got := pgtest.Value[string](t, w.DB, "select detail::text from audit_log where actor = 'grace'"); got != `{"to": "2026-03-31", "from": "2026-03-01"}` {
		t.Errorf("detail: %s", got)
	}
	for range 2 {
		for _, dataset := range []activity.Adjusted{activity.AdjustedSteps, activity.AdjustedCycling} {
			if _, err := w.Day(work.WithActor(t.Context(), "kim"), dataset, user, day("2026-03-09")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := pgtest.Value[string](t, w.DB, "select string_agg(detail::text, '') from audit_log where actor = 'kim' and action = 'activity.viewed'"); got != `{"to": "2026-03-09", "from": "2026-03-09"}` {
		t.Errorf("a day: %s", got)
	}
	w.Define(t, "alter table audit_log add constraint full_up check (actor <> 'linus')")
	if got, err := w.View(work.WithActor(t.Context(), "linus"), user, april); err == nil {
		t.Errorf("without an entry: %+v", got)
	}
	if got, err := w.Day(work.WithActor(t.Context(), "linus"), activity.AdjustedSteps, user, day("2026-03-09")); err == nil {
		t.Errorf("without an entry: %+v", got)
	}
}

// A view is bounded, and says so.
func TestViewIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	w.Exec(t, `insert into cycling_activities (user_id, start_time, distance_meters, source_id)
		select $1, '2026-03-01'::timestamp + n * interval '1 second', 1, n::text from generate_series(1, 1001) n`, user)
	got, err := w.View(t.Context(), user, activity.Range{From: day("2026-03-01"), To: day("2026-03-31")})
	if err != nil || len(got.Rides) != 1000 || got.Complete || got.Days[0].Cycling.Recorded != 1001 {
		t.Errorf("%d rides, complete: %t, %+v, %v", len(got.Rides), got.Complete, got.Days, err)
	}
}
