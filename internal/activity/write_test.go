package activity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/activity"
)

// A bad record of a batch is reported with its number, and nothing of the batch is taken.
func TestPutBadRecords(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	steps := func(changes ...func(*activity.StepsRecord)) error {
		records := make([]activity.StepsRecord, len(changes))
		for i, change := range changes {
			records[i] = activity.StepsRecord{UserID: user, Date: day("2026-04-01"), Steps: 7}
			change(&records[i])
		}
		_, err := w.PutDailySteps(t.Context(), records)
		return err
	}
	rides := func(changes ...func(*activity.RideRecord)) error {
		records := make([]activity.RideRecord, len(changes))
		for i, change := range changes {
			records[i] = activity.RideRecord{UserID: user, SourceID: "r1", Start: clock("2026-04-01T08:00:00"), DistanceMeters: 7}
			change(&records[i])
		}
		_, err := w.PutCyclingActivities(t.Context(), records)
		return err
	}
	goodSteps, goodRide := func(*activity.StepsRecord) {}, func(*activity.RideRecord) {}
	for name, test := range map[string]struct {
		err    error
		line   int
		column string
	}{
		"steps below 0":    {steps(goodSteps, func(r *activity.StepsRecord) { r.Steps = -1 }), 2, "steps"},
		"steps of 33 bits": {steps(func(r *activity.StepsRecord) { r.Steps = 1 << 31 }), 1, "steps"},
		"date with a time": {steps(goodSteps, func(r *activity.StepsRecord) { r.Date = r.Date.Add(1) }), 2, "date"},
		"date with a zone": {steps(func(r *activity.StepsRecord) { r.Date = r.Date.In(time.FixedZone("", 3600)) }), 1, "date"},
		"date of year 1":   {steps(func(r *activity.StepsRecord) { r.Date = time.Time{} }), 1, "date"},
		"steps of nobody":  {steps(goodSteps, func(r *activity.StepsRecord) { r.UserID = uuid.New() }), 2, "user_id"},
		"nobody comes first": {steps(
			func(r *activity.StepsRecord) { r.UserID = uuid.New() }, func(r *activity.StepsRecord) { r.Steps = -1 }), 1, "user_id"},
		"ride without name": {rides(goodRide, func(r *activity.RideRecord) { r.SourceID = "" }), 2, "source_id"},
		"ride with NUL":     {rides(func(r *activity.RideRecord) { r.SourceID = "a\x00" }), 1, "source_id"},
		"ride of year 1":    {rides(func(r *activity.RideRecord) { r.Start = time.Time{} }), 1, "recorded_start_time"},
		"distance below 0":  {rides(goodRide, func(r *activity.RideRecord) { r.DistanceMeters = -1 }), 2, "distance_meters"},
		"ride of nobody":    {rides(func(r *activity.RideRecord) { r.UserID = uuid.New() }), 1, "user_id"},
	} {
		var bad *activity.RowError
		if !errors.As(test.err, &bad) || bad.Line != test.line || bad.Column != test.column {
			t.Errorf("%s: error %v, want line %d, column %s", name, test.err, test.line, test.column)
		}
		if nobody := test.column == "user_id"; nobody != errors.Is(test.err, activity.ErrUnknownUser) {
			t.Errorf("%s: error %v; is it ErrUnknownUser: %t", name, test.err, !nobody)
		}
	}
	if got := w.stored(t, "daily_steps"); len(got) != 1 || got[0] != "2026-04-01 1000" {
		t.Errorf("stored: %v", got)
	}
	if got := w.stored(t, "cycling_activities"); len(got) != 1 || !strings.HasSuffix(got[0], " 1000") {
		t.Errorf("stored: %v", got)
	}
}

func TestPutCounts(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	got, err := w.PutDailySteps(t.Context(), []activity.StepsRecord{
		{UserID: user, Date: day("2026-04-01"), Steps: 1000},
		{UserID: user, Date: day("2026-04-02"), Steps: 1},
		{UserID: user, Date: day("2026-04-02"), Steps: 2},
	})
	if want := (activity.Result{Rows: 3, Inserted: 1, Unchanged: 2}); err != nil || got != want {
		t.Errorf("PutDailySteps = %+v, %v; want %+v", got, err, want)
	}
	if got, err := w.PutCyclingActivities(t.Context(), nil); err != nil || got != (activity.Result{}) {
		t.Errorf("an empty batch: %+v, %v", got, err)
	}
}

func TestAdjustRefuses(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	for _, test := range []struct {
		name  string
		user  uuid.UUID
		date  time.Time
		delta int
		note  string
		want  error
	}{
		{"nobody", uuid.New(), day("2026-04-01"), 1, "", activity.ErrUnknownUser},
		{"no date", user, time.Time{}, 1, "", activity.ErrAdjustment},
		{"a time of day", user, clock("2026-04-01T08:00:00"), 1, "", activity.ErrAdjustment},
		{"nothing", user, day("2026-04-01"), 0, "", activity.ErrAdjustment},
		{"33 bits up", user, day("2026-04-01"), 1 << 31, "", activity.ErrAdjustment},
		{"33 bits down", user, day("2026-04-01"), -1<<31 - 1, "", activity.ErrAdjustment},
		{"NUL", user, day("2026-04-01"), 1, "a\x00", activity.ErrAdjustment},
		{"not UTF-8", user, day("2026-04-01"), 1, "\xff", activity.ErrAdjustment},
		{"long note", user, day("2026-04-01"), 1, strings.Repeat("é", 1001), activity.ErrAdjustment},
		{"longest note", user, day("2026-04-01"), 1, strings.Repeat("é", 1000), nil},
		{"largest", user, day("2026-04-01"), 1<<31 - 1, "", nil},
		{"smallest", user, day("2026-04-01"), -1 << 31, "", nil},
	} {
		if err := w.AdjustSteps(t.Context(), test.user, test.date, test.delta, test.note); !errors.Is(err, test.want) {
			t.Errorf("%s: AdjustSteps: %v, want %v", test.name, err, test.want)
		}
		if err := w.AdjustCycling(t.Context(), test.user, test.date, test.delta, test.note); !errors.Is(err, test.want) {
			t.Errorf("%s: AdjustCycling: %v, want %v", test.name, err, test.want)
		}
	}
}
