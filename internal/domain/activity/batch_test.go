package activity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/pgtest"
)

// everything is a batch with a row in each part, for the user of an import world.
func everything() activity.Batch {
	user := uuid.MustParse(userU)
	return activity.Batch{
		DailySteps: []activity.StepsRecord{{UserID: user, Date: day("2026-04-02"), Steps: 500}},
		CyclingActivities: []activity.RideRecord{
			{UserID: user, SourceID: "r2", Start: clock("2026-04-02T08:00:00"), DistanceMeters: 700},
		},
		StepCorrections: []activity.AdjustmentRecord{
			{UserID: user, ID: uuid.UUID{1}, Date: day("2026-04-02"), Delta: -100, Note: "swing"},
		},
		CyclingAdjustments: []activity.AdjustmentRecord{
			{UserID: user, ID: uuid.UUID{1}, Date: day("2026-04-02"), Delta: 50, Note: "tunnel"},
		},
		Removals: []activity.RideRecord{{UserID: user, SourceID: "r1"}},
		// Rows that do not exist.
		DailyStepsRemovals:        []activity.StepsRecord{{UserID: user, Date: day("2026-04-09")}},
		StepCorrectionRemovals:    []activity.AdjustmentRecord{{UserID: user, ID: uuid.UUID{9}}},
		CyclingAdjustmentRemovals: []activity.AdjustmentRecord{{UserID: user, ID: uuid.UUID{9}}},
	}
}

// rows is all recorded activity, a line each.
func (w world) rows(t *testing.T) string {
	t.Helper()
	return pgtest.Value[string](t, w.DB, `select coalesce(string_agg(line, E'\n' order by line), '') from (
		select concat_ws(' ', 'steps', date, steps) from daily_steps
		union all select concat_ws(' ', 'ride', source_id, distance_meters) from cycling_activities
		union all select concat_ws(' ', 'correction', left(correction_id::text, 2), date, delta, note) from step_corrections
		union all select concat_ws(' ', 'adjustment', left(adjustment_id::text, 2), date, delta_meters, note) from cycling_adjustments
	) as all_rows (line)`)
}

const untouched = "ride r1 1000\nsteps 2026-04-01 1000"

// The same batch again changes nothing; other content under the same keys replaces.
func TestPutBatch(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	put := func(batch activity.Batch, want activity.BatchResult, rows string) {
		t.Helper()
		before := w.rows(t)
		would, err := w.Preview(t.Context(), batch)
		if diff := cmp.Diff(want, would); diff != "" || err != nil {
			t.Errorf("preview: %v (-want +got):\n%s", err, diff)
		}
		if diff := cmp.Diff(before, w.rows(t)); diff != "" {
			t.Errorf("a preview changes rows (-before +after):\n%s", diff)
		}
		got, err := w.Put(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(rows, w.rows(t)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	}
	const first = "adjustment 01 2026-04-02 50 tunnel\ncorrection 01 2026-04-02 -100 swing\n" +
		"ride r2 700\nsteps 2026-04-01 1000\nsteps 2026-04-02 500"
	one, none := activity.Result{Rows: 1, Inserted: 1}, activity.Result{Rows: 1, Unchanged: 1}
	put(activity.Batch{}, activity.BatchResult{}, untouched)
	absent := activity.Removed{Rows: 1, Unchanged: 1}
	put(everything(), activity.BatchResult{
		DailyStepsRemovals: absent, StepCorrectionRemovals: absent, CyclingAdjustmentRemovals: absent,
		DailySteps: one, CyclingActivities: one, StepCorrections: one, CyclingAdjustments: one,
		Removals: activity.Removed{Rows: 1, Removed: 1},
	}, first)
	put(everything(), activity.BatchResult{
		DailyStepsRemovals: absent, StepCorrectionRemovals: absent, CyclingAdjustmentRemovals: absent,
		DailySteps: none, CyclingActivities: none, StepCorrections: none, CyclingAdjustments: none,
		Removals: activity.Removed{Rows: 1, Unchanged: 1},
	}, first)

	changed := everything()
	changed.StepCorrections[0].Date = day("2026-04-03") // another date: the old one is corrected no more
	changed.StepCorrections = append(changed.StepCorrections, changed.StepCorrections[0])
	changed.StepCorrections[1].Delta = -200
	changed.CyclingAdjustments[0].Note = "bridge"
	changed.Removals = append(changed.Removals, activity.RideRecord{UserID: uuid.MustParse(userU), SourceID: "never"})
	put(changed, activity.BatchResult{
		DailyStepsRemovals: absent, StepCorrectionRemovals: absent, CyclingAdjustmentRemovals: absent,
		DailySteps: none, CyclingActivities: none,
		StepCorrections:    activity.Result{Rows: 2, Updated: 1, Unchanged: 1},
		CyclingAdjustments: activity.Result{Rows: 1, Updated: 1},
		Removals:           activity.Removed{Rows: 2, Unchanged: 2},
	}, "adjustment 01 2026-04-02 50 bridge\ncorrection 01 2026-04-03 -200 swing\n"+
		"ride r2 700\nsteps 2026-04-01 1000\nsteps 2026-04-02 500")
}

// An id belongs to its user: the same id of another user is another correction.
func TestPutBatchIDsAreTheUsers(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	other := w.newUser(t, "UTC")
	batch := activity.Batch{StepCorrections: everything().StepCorrections}
	batch.StepCorrections = append(batch.StepCorrections, batch.StepCorrections[0])
	batch.StepCorrections[1].UserID = other
	got, err := w.Put(t.Context(), batch)
	if want := (activity.Result{Rows: 2, Inserted: 2}); err != nil || got.StepCorrections != want {
		t.Errorf("%+v, %v; want %+v", got.StepCorrections, err, want)
	}
}

// One bad row anywhere, and nothing of any part is taken.
func TestPutBatchBadRows(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	for _, test := range []struct {
		name   string
		change func(*activity.Batch)
		path   string
	}{
		{"steps below 0", func(b *activity.Batch) { b.DailySteps[0].Steps = -1 }, "/daily_steps/0/steps"},
		{"steps of 33 bits", func(b *activity.Batch) { b.DailySteps[0].Steps = 1 << 31 }, "/daily_steps/0/steps"},
		{"date with a time", func(b *activity.Batch) { b.DailySteps[0].Date = clock("2026-04-02T00:00:01") }, "/daily_steps/0/date"},
		{"date with a zone", func(b *activity.Batch) { b.DailySteps[0].Date = b.DailySteps[0].Date.In(time.FixedZone("", 3600)) },
			"/daily_steps/0/date"},
		{"date of year 1", func(b *activity.Batch) { b.DailySteps[0].Date = time.Time{} }, "/daily_steps/0/date"},
		{"steps of nobody", func(b *activity.Batch) { b.DailySteps[0].UserID = uuid.New() }, "/daily_steps/0/user_id"},
		{"ride without name", func(b *activity.Batch) { b.CyclingActivities[0].SourceID = "" }, "/cycling_activities/0/source_id"},
		{"ride with NUL", func(b *activity.Batch) { b.CyclingActivities[0].SourceID = "a\x00" }, "/cycling_activities/0/source_id"},
		{"ride of year 1", func(b *activity.Batch) { b.CyclingActivities[0].Start = time.Time{} },
			"/cycling_activities/0/recorded_start_time"},
		{"ride below 0", func(b *activity.Batch) { b.CyclingActivities[0].DistanceMeters = -1 }, "/cycling_activities/0/distance_meters"},
		{"ride of nobody", func(b *activity.Batch) { b.CyclingActivities[0].UserID = uuid.New() }, "/cycling_activities/0/user_id"},
		{"correction of nothing", func(b *activity.Batch) { b.StepCorrections[0].Delta = 0 }, "/step_corrections/0/delta"},
		{"correction without an id", func(b *activity.Batch) { b.StepCorrections[0].ID = uuid.Nil }, "/step_corrections/0/correction_id"},
		{"adjustment without an id", func(b *activity.Batch) { b.CyclingAdjustments[0].ID = uuid.Nil }, "/cycling_adjustments/0/adjustment_id"},
		{"correction of nobody", func(b *activity.Batch) { b.StepCorrections[0].UserID = uuid.New() }, "/step_corrections/0/user_id"},
		{"adjustment of nothing", func(b *activity.Batch) { b.CyclingAdjustments[0].Delta = 0 }, "/cycling_adjustments/0/delta_meters"},
		{"adjustment with NUL", func(b *activity.Batch) { b.CyclingAdjustments[0].Note = "\x00" }, "/cycling_adjustments/0/note"},
		{"adjustment with a time", func(b *activity.Batch) { b.CyclingAdjustments[0].Date = clock("2026-04-01T01:00:00") }, "/cycling_adjustments/0/date"},
		{"removal without name", func(b *activity.Batch) { b.Removals[0].SourceID = "" }, "/removals/0/source_id"},
		{"removal of what is written", func(b *activity.Batch) { b.Removals[0].SourceID = "r2" }, "/removals/0/source_id"},
		{"removal of the day that is written", func(b *activity.Batch) { b.DailyStepsRemovals[0].Date = day("2026-04-02") },
			"/daily_steps_removals/0/date"},
		{"removal of a day with a time", func(b *activity.Batch) { b.DailyStepsRemovals[0].Date = clock("2026-04-02T01:00:00") },
			"/daily_steps_removals/0/date"},
		{"removal of nobody's day", func(b *activity.Batch) { b.DailyStepsRemovals[0].UserID = uuid.New() },
			"/daily_steps_removals/0/user_id"},
		{"removal of the correction that is written", func(b *activity.Batch) { b.StepCorrectionRemovals[0].ID = uuid.UUID{1} },
			"/step_correction_removals/0/correction_id"},
		{"removal of nobody's correction", func(b *activity.Batch) { b.StepCorrectionRemovals[0].UserID = uuid.New() },
			"/step_correction_removals/0/user_id"},
		{"removal of the adjustment that is written", func(b *activity.Batch) { b.CyclingAdjustmentRemovals[0].ID = uuid.UUID{1} },
			"/cycling_adjustment_removals/0/adjustment_id"},
		{"removal of nobody's adjustment", func(b *activity.Batch) { b.CyclingAdjustmentRemovals[0].UserID = uuid.New() },
			"/cycling_adjustment_removals/0/user_id"},
		{"removal of nobody's", func(b *activity.Batch) { b.Removals[0].UserID = uuid.New() }, "/removals/0/user_id"},
	} {
		batch := everything()
		test.change(&batch)
		_, err := w.Put(t.Context(), batch)
		bad := refusal.FieldsOf(err)
		if _, err := w.Preview(t.Context(), batch); !slices.Equal(refusal.FieldsOf(err), bad) {
			t.Errorf("%s: the preview is refused by %v, the act by %v", test.name, refusal.FieldsOf(err), bad)
		}
		if len(bad) != 1 || bad[0].Path != test.path {
			t.Errorf("%s: %v of %v, want one of %s", test.name, bad, err, test.path)
		} else if nobody := strings.HasSuffix(test.path, "/user_id"); nobody != (bad[0].Problem == refusal.ErrUserNotFound.Error()) {
			t.Errorf("%s: %v", test.name, bad)
		}
		if diff := cmp.Diff(untouched, w.rows(t)); diff != "" {
			t.Fatalf("%s: rows (-want +got):\n%s", test.name, diff)
		}
	}
}

// All bad rows are named, up to a hundred, each with all that is wrong with it.
func TestPutBatchNamesAllBadRows(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user, end := uuid.MustParse(userU), "2026-04-02T25:00:00"
	var batch activity.Batch
	batch.AddRide(user, "r2", "2026-02-30T08:00:00", &end, -1, nil)
	batch.AddRide(uuid.New(), "", "2026-04-02T08:00:00", nil, 1, nil)
	batch.DailySteps = []activity.StepsRecord{
		{UserID: user, Date: day("2026-04-02"), Steps: 1}, {UserID: user, Steps: -1}, {UserID: uuid.New(), Date: day("2026-04-02")},
	}
	_, err := w.Put(t.Context(), batch)
	var named []string
	for _, field := range refusal.FieldsOf(err) {
		named = append(named, field.Error())
	}
	const clocks = "must be a clock time that exists"
	if diff := cmp.Diff([]string{
		"/cycling_activities/0/distance_meters: must be a whole number from 0 to 2147483647",
		"/cycling_activities/0/recorded_end_time: " + clocks,
		"/cycling_activities/0/recorded_start_time: " + clocks,
		"/cycling_activities/1/source_id: must have 1 to 128 bytes of UTF-8 without NUL",
		"/cycling_activities/1/user_id: no such user",
		"/daily_steps/1/date: must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31",
		"/daily_steps/1/steps: must be a whole number from 0 to 2147483647",
		"/daily_steps/2/user_id: no such user",
	}, named); diff != "" {
		t.Errorf("named (-want +got):\n%s", diff)
	}
	many := activity.Batch{}
	for range 150 {
		many.DailySteps = append(many.DailySteps, activity.StepsRecord{UserID: uuid.New(), Date: day("2026-04-02")})
	}
	_, err = w.Put(t.Context(), many)
	if bad := refusal.FieldsOf(err); len(bad) != refusal.MaxNamed || bad[99].Path != "/daily_steps/99/user_id" {
		t.Errorf("%d of 150 rows are named: %v", len(bad), bad)
	}
}

// Reads no longer have what a batch has removed: a day without its record, even where a correction stays, and a correction or an
// adjustment.
func TestPutBatchRemoves(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	put := func(batch activity.Batch) activity.BatchResult {
		t.Helper()
		result, err := w.Put(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	id := uuid.UUID{1}
	put(activity.Batch{
		StepCorrections:    []activity.AdjustmentRecord{{UserID: user, ID: id, Date: day("2026-04-01"), Delta: 5}},
		CyclingAdjustments: []activity.AdjustmentRecord{{UserID: user, ID: id, Date: day("2026-04-01"), Delta: 7}},
	})
	read := func() string {
		t.Helper()
		steps, err := w.DailySteps(t.Context(), user, april)
		if err != nil {
			t.Fatal(err)
		}
		rides, err := w.CyclingDaily(t.Context(), user, april)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(steps, rides)
	}
	for _, step := range []struct {
		batch activity.Batch
		want  string
	}{
		{activity.Batch{}, "[{2026-04-01 00:00:00 +0000 UTC 1005}] [{2026-04-01 00:00:00 +0000 UTC 1007}]"},
		{activity.Batch{CyclingAdjustmentRemovals: []activity.AdjustmentRecord{{UserID: user, ID: id}}},
			"[{2026-04-01 00:00:00 +0000 UTC 1005}] [{2026-04-01 00:00:00 +0000 UTC 1000}]"},
		{activity.Batch{DailyStepsRemovals: []activity.StepsRecord{{UserID: user, Date: day("2026-04-01")}}},
			"[] [{2026-04-01 00:00:00 +0000 UTC 1000}]"},
		{activity.Batch{DailySteps: []activity.StepsRecord{{UserID: user, Date: day("2026-04-01"), Steps: 10}}},
			"[{2026-04-01 00:00:00 +0000 UTC 15}] [{2026-04-01 00:00:00 +0000 UTC 1000}]"},
		{activity.Batch{StepCorrectionRemovals: []activity.AdjustmentRecord{{UserID: user, ID: id}, {UserID: user, ID: id}}},
			"[{2026-04-01 00:00:00 +0000 UTC 10}] [{2026-04-01 00:00:00 +0000 UTC 1000}]"},
	} {
		result := put(step.batch)
		if got := read(); got != step.want {
			t.Errorf("after %+v: %s, want %s", step.batch, got, step.want)
		}
		if n := len(step.batch.StepCorrectionRemovals); n > 0 {
			if want := (activity.Removed{Removed: 1, Rows: 2, Unchanged: 1}); result.StepCorrectionRemovals != want {
				t.Errorf("%+v, want %+v", result.StepCorrectionRemovals, want)
			}
		}
	}
}

// Batches and imports of one user at the same time all succeed, also when they name the same rows in other orders and
// remove what others write.
func TestPutBatchesAtOnce(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	const n, writers = 50, 4
	ride := func(i int) activity.RideRecord {
		return activity.RideRecord{UserID: user, SourceID: fmt.Sprintf("s%02d", i), Start: clock("2026-04-03T08:00:00"), DistanceMeters: i}
	}
	batch := func(writer int) (b activity.Batch) {
		for i := range n {
			if writer%2 == 1 {
				i = n - 1 - i
			}
			id := uuid.UUID{byte(i + 1)}
			b.StepCorrections = append(b.StepCorrections, activity.AdjustmentRecord{UserID: user, ID: id, Date: day("2026-04-01"), Delta: 1 + writer})
			if i%2 == writer%2 {
				b.CyclingActivities = append(b.CyclingActivities, ride(i))
			} else {
				b.Removals = append(b.Removals, activity.RideRecord{UserID: user, SourceID: ride(i).SourceID})
			}
		}
		return b
	}
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for range 5 {
				if _, err := w.Put(context.Background(), batch(writer)); err != nil {
					t.Errorf("batch: %v", err)
				}
			}
		})
	}
	all.Go(func() {
		file := ridesHeader
		for i := range n {
			file += fmt.Sprintf("%s,%s,2026-04-03T08:00:00,,%d\n", userU, ride(i).SourceID, i)
		}
		for range 5 {
			if _, err := w.ImportCyclingActivities(context.Background(), strings.NewReader(file), activity.ImportOptions{}); err != nil {
				t.Errorf("import: %v", err)
			}
		}
	})
	all.Wait()
	// The last one is there as a whole.
	if deltas := pgtest.Value[int64](t, w.DB, "select count(distinct delta) from step_corrections"); deltas != 1 {
		t.Errorf("corrections of %d batches are mixed", deltas)
	}
}

func TestPutCounts(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	got, err := w.Put(t.Context(), activity.Batch{DailySteps: []activity.StepsRecord{
		{UserID: user, Date: day("2026-04-01"), Steps: 1000},
		{UserID: user, Date: day("2026-04-02"), Steps: 1},
		{UserID: user, Date: day("2026-04-02"), Steps: 2},
	}})
	if want := (activity.Result{Rows: 3, Inserted: 1, Unchanged: 2}); err != nil || got.DailySteps != want {
		t.Errorf("Put = %+v, %v; want %+v", got.DailySteps, err, want)
	}
	if got, err := w.Put(t.Context(), activity.Batch{}); err != nil || got != (activity.BatchResult{}) {
		t.Errorf("an empty batch: %+v, %v", got, err)
	}
}

func TestAdjustRefuses(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	for _, dataset := range []activity.Adjusted{activity.AdjustedSteps, activity.AdjustedCycling} {
		for name, test := range map[string]struct {
			date  time.Time
			delta int
			note  string
			wrong string // the field
		}{
			"no date":       {time.Time{}, 1, "", "date"},
			"a time of day": {clock("2026-04-01T08:00:00"), 1, "", "date"},
			"nothing":       {day("2026-04-01"), 0, "", "delta"},
			"33 bits up":    {day("2026-04-01"), 1 << 31, "", "delta"},
			"33 bits down":  {day("2026-04-01"), -1<<31 - 1, "", "delta"},
			"NUL":           {day("2026-04-01"), 1, "a\x00", "note"},
			"not UTF-8":     {day("2026-04-01"), 1, "\xff", "note"},
			"long note":     {day("2026-04-01"), 1, strings.Repeat("é", 1001), "note"},
			"longest note":  {day("2026-04-01"), 1, strings.Repeat("é", 1000), ""},
			"largest":       {day("2026-04-01"), 1<<31 - 1, "", ""},
			"smallest":      {day("2026-04-01"), -1 << 31, "", ""},
		} {
			_, err := w.Adjust(t.Context(), dataset, activity.AdjustmentRecord{UserID: user, Date: test.date, Delta: test.delta, Note: test.note})
			if wrong, found := errors.AsType[refusal.Field](err); found != (test.wrong != "") || found && wrong.Path != test.wrong {
				t.Errorf("%s of %s: %v, want a wrong %q", name, dataset, err, test.wrong)
			}
			if test.wrong == "" && err != nil {
				t.Errorf("%s of %s: %v", name, dataset, err)
			}
		}
		nobody := activity.AdjustmentRecord{UserID: uuid.New(), Date: day("2026-04-01"), Delta: 1}
		if _, err := w.Adjust(t.Context(), dataset, nobody); !errors.Is(err, refusal.ErrUserNotFound) {
			t.Errorf("nobody's %s: %v, want %v", dataset, err, refusal.ErrUserNotFound)
		}
	}
}
