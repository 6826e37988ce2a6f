package activity_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// seen is a row of the day or the ride of these tests: what it says, and its observation, "" for none.
type seen struct {
	value      int
	observedAt string
}

// A door is a way in which rows come in.
var doors = map[string]func(*testing.T, world, ...seen) activity.Result{
	"batch of steps": func(t *testing.T, w world, rows ...seen) activity.Result {
		var batch activity.Batch
		for _, row := range rows {
			batch.AddSteps(uuid.MustParse(userU), day("2026-04-02"), row.value, optional(row.observedAt))
		}
		result, err := w.Put(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		return result.DailySteps
	},
	"batch of rides": func(t *testing.T, w world, rows ...seen) activity.Result {
		var batch activity.Batch
		for _, row := range rows {
			batch.AddRide(uuid.MustParse(userU), "r2", "2026-04-02T08:00:00", nil, row.value, optional(row.observedAt))
		}
		result, err := w.Put(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		return result.CyclingActivities
	},
	"file of steps": func(t *testing.T, w world, rows ...seen) activity.Result {
		file := "user_id,date,steps,observed_at\n"
		for _, row := range rows {
			file += fmt.Sprintf("%s,2026-04-02,%d,%s\n", userU, row.value, row.observedAt)
		}
		result, err := w.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return result
	},
	"file of rides": func(t *testing.T, w world, rows ...seen) activity.Result {
		file := "user_id,source_id,recorded_start_time,recorded_end_time,distance_meters,observed_at\n"
		for _, row := range rows {
			file += fmt.Sprintf("%s,r2,2026-04-02T08:00:00,,%d,%s\n", userU, row.value, row.observedAt)
		}
		result, err := w.ImportCyclingActivities(t.Context(), strings.NewReader(file), activity.ImportOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return result
	},
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// value returns what is stored of the day or the ride, and when it was observed, in UTC.
func (w world) value(t *testing.T, door string) string {
	t.Helper()
	statement := "select concat_ws(' ', steps, observed_at) from daily_steps where date = '2026-04-02'"
	if strings.HasSuffix(door, "rides") {
		statement = "select concat_ws(' ', distance_meters, observed_at) from cycling_activities where source_id = 'r2'"
	}
	return pgtest.Value[string](t, w.DB, strings.ReplaceAll(statement, "observed_at)", "observed_at at time zone 'UTC')"))
}

// An observation never replaces a later one of the same row, in whichever order they arrive. A row without one replaces, and is replaced.
func TestObservations(t *testing.T) {
	t.Parallel()
	const morning, noon, evening = "2026-04-02T08:00:00Z", "2026-04-02T12:00:00.000001+00:00", "2026-04-02T22:00:00+02:00"
	inserted, updated := activity.Result{Rows: 1, Inserted: 1}, activity.Result{Rows: 1, Updated: 1}
	outdated, unchanged := activity.Result{Rows: 1, Outdated: 1}, activity.Result{Rows: 1, Unchanged: 1}
	type step struct {
		rows   []seen
		want   activity.Result
		stored string
	}
	for name, steps := range map[string][]step{
		"the earlier one arrives late": {
			{[]seen{{9000, evening}}, inserted, "9000 2026-04-02 20:00:00"},
			{[]seen{{4000, morning}}, outdated, "9000 2026-04-02 20:00:00"},
			{[]seen{{4000, morning}}, outdated, "9000 2026-04-02 20:00:00"},
		},
		"in order": {
			{[]seen{{4000, morning}}, inserted, "4000 2026-04-02 08:00:00"},
			{[]seen{{9000, noon}}, updated, "9000 2026-04-02 12:00:00.000001"},
			{[]seen{{9000, noon}}, unchanged, "9000 2026-04-02 12:00:00.000001"},
		},
		"of one instant the later row counts": {
			{[]seen{{9000, noon}}, inserted, "9000 2026-04-02 12:00:00.000001"},
			{[]seen{{4000, noon}}, updated, "4000 2026-04-02 12:00:00.000001"},
		},
		"seen again later": {
			{[]seen{{9000, morning}}, inserted, "9000 2026-04-02 08:00:00"},
			{[]seen{{9000, evening}}, unchanged, "9000 2026-04-02 20:00:00"},
			{[]seen{{4000, noon}}, outdated, "9000 2026-04-02 20:00:00"},
		},
		"without an observation the last write counts": {
			{[]seen{{9000, ""}}, inserted, "9000"},
			{[]seen{{4000, ""}}, updated, "4000"},
			{[]seen{{5000, morning}}, updated, "5000 2026-04-02 08:00:00"},
			{[]seen{{5000, ""}}, unchanged, "5000"},
			{[]seen{{3000, morning}}, updated, "3000 2026-04-02 08:00:00"},
			{[]seen{{2000, ""}}, updated, "2000"},
		},
		"several at once": {
			{[]seen{{9000, evening}, {4000, morning}, {8000, noon}}, activity.Result{Rows: 3, Inserted: 1, Unchanged: 2}, "9000 2026-04-02 20:00:00"},
			{[]seen{{4000, morning}, {8000, noon}}, activity.Result{Rows: 2, Outdated: 1, Unchanged: 1}, "9000 2026-04-02 20:00:00"},
			{[]seen{{1, evening}, {2, evening}}, activity.Result{Rows: 2, Updated: 1, Unchanged: 1}, "2 2026-04-02 20:00:00"},
			{[]seen{{3, ""}, {4, evening}}, activity.Result{Rows: 2, Updated: 1, Unchanged: 1}, "3"},
		},
	} {
		for door, put := range doors {
			t.Run(name+" by "+door, func(t *testing.T) {
				t.Parallel()
				w := newImportWorld(t)
				for i, step := range steps {
					if diff := cmp.Diff(step.want, put(t, w, step.rows...)); diff != "" {
						t.Errorf("step %d (-want +got):\n%s", i, diff)
					}
					if got := w.value(t, door); got != step.stored {
						t.Errorf("step %d: stored is %s, want %s", i, got, step.stored)
					}
				}
			})
		}
	}
}

// The last observation counts in the end, in whichever order and batches they arrive.
func TestObservationsInAnyOrder(t *testing.T) {
	t.Parallel()
	for door, put := range doors {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			w := newImportWorld(t)
			first := time.Date(2026, 4, 2, 8, 0, 0, 0, time.UTC)
			rows := make([]seen, 40)
			for i, n := range rand.Perm(len(rows)) {
				rows[i] = seen{n, first.Add(time.Duration(n) * time.Microsecond).Format(time.RFC3339Nano)}
			}
			latest := -1
			for len(rows) > 0 {
				n := 1 + rand.IntN(len(rows))
				for _, row := range rows[:n] {
					latest = max(latest, row.value)
				}
				put(t, w, rows[:n]...)
				if got, _, _ := strings.Cut(w.value(t, door), " "); got != fmt.Sprint(latest) {
					t.Fatalf("%s is stored after %v, want %d", got, rows[:n], latest)
				}
				rows = rows[n:]
			}
		})
	}
}

// An instant in the future counts as now, so that a clock that is ahead keeps out nothing that is seen later.
func TestObservationOfTheFuture(t *testing.T) {
	t.Parallel()
	for door, put := range doors {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			w := newImportWorld(t)
			put(t, w, seen{9000, "2199-01-01T00:00:00Z"})
			if got := put(t, w, seen{5000, time.Now().Add(time.Minute).Format(time.RFC3339Nano)}); got.Updated != 1 {
				t.Errorf("a later write: %+v", got)
			}
			if got := put(t, w, seen{4000, "2026-04-02T08:00:00Z"}); got.Outdated != 1 {
				t.Errorf("an earlier observation: %+v", got)
			}
		})
	}
}

// Partners hear of a changed total, but of no newer observation of the same total, and of none that is not taken.
func TestObservationsAreNoChanges(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	client := w.watcher(t, uuid.MustParse(userU), scope.All)
	w.Exec(t, "update connections set history_from = '2026-04-01'")
	put := doors["batch of steps"]
	for i, step := range []struct {
		row  seen
		want []string
	}{
		{seen{9000, "2026-04-02T12:00:00Z"}, []string{"1 2026-04-02 2026-04-02"}},
		{seen{9000, "2026-04-02T13:00:00Z"}, nil},
		{seen{4000, "2026-04-02T08:00:00Z"}, nil},
		{seen{4000, "2026-04-02T14:00:00Z"}, []string{"1 2026-04-02 2026-04-02"}},
	} {
		put(t, w, step.row)
		if diff := cmp.Diff(step.want, w.takeChanges(t, client), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

// A correction by support adds to whatever is stored, and a removal forgets the observation.
func TestObservationsAndCorrections(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user, put := uuid.MustParse(userU), doors["batch of steps"]
	put(t, w, seen{9000, "2026-04-02T12:00:00Z"})
	if _, err := w.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: user, Date: day("2026-04-02"), Delta: -500, Note: "n"}); err != nil {
		t.Fatal(err)
	}
	put(t, w, seen{4000, "2026-04-02T08:00:00Z"})
	if got, err := w.Day(t.Context(), activity.AdjustedSteps, user, day("2026-04-02")); err != nil || got.Total() != 8500 {
		t.Errorf("%+v, %v; want 8500 in all", got, err)
	}
	removals := []activity.StepsRecord{{UserID: user, Date: day("2026-04-02")}}
	if _, err := w.Put(t.Context(), activity.Batch{DailyStepsRemovals: removals}); err != nil {
		t.Fatal(err)
	}
	if got := put(t, w, seen{4000, "2026-04-02T08:00:00Z"}); got.Inserted != 1 {
		t.Errorf("after a removal: %+v", got)
	}
}

// The instant of a batch stands for rows that have none.
func TestObservationOfABatch(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	var batch activity.Batch
	noon := "2026-04-02T12:00:00Z"
	batch.SetObservedAt(&noon)
	batch.AddSteps(user, day("2026-04-02"), 9000, nil)
	batch.AddSteps(user, day("2026-04-03"), 9000, optional("2026-04-03T12:00:00Z"))
	batch.AddRide(user, "r2", "2026-04-02T08:00:00", nil, 900, nil)
	if _, err := w.Put(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	got := pgtest.Value[string](t, w.DB, `select string_agg(observed_at::timestamptz(0) at time zone 'UTC' || '', ', ' order by observed_at) from (
		select observed_at from daily_steps union all select observed_at from cycling_activities) o`)
	if want := "2026-04-02 12:00:00, 2026-04-02 12:00:00, 2026-04-03 12:00:00"; got != want {
		t.Errorf("observed at %s, want %s", got, want)
	}
}

// An instant that is none is refused by the name of its row.
func TestObservationsThatAreNone(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user, none := uuid.MustParse(userU), "2026-02-30T12:00:00Z"
	var batch activity.Batch
	batch.SetObservedAt(&none)
	batch.AddSteps(user, day("2026-04-02"), 1, &none)
	batch.AddRide(user, "r2", "2026-04-02T08:00:00", nil, 900, &none)
	_, err := w.Put(t.Context(), batch)
	const problem = "must be an instant such as 2026-01-31T18:30:00Z (RFC 3339)"
	want := []refusal.Field{{Path: "/cycling_activities/0/observed_at", Problem: problem}, {Path: "/daily_steps/0/observed_at", Problem: problem},
		{Path: "/observed_at", Problem: problem}}
	if diff := cmp.Diff(want, refusal.FieldsOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{
		none, "2026-04-02", "2026-04-02T12:00:00", "2026-04-02T12:00:00,5Z", "2026-04-02 12:00:00Z", " ",
		"0001-01-01T00:00:00Z", "0000-12-31T12:00:00Z", "1899-12-31T23:59:59Z", // which programs write for an instant that they lack
	} {
		file := "user_id,date,steps,observed_at\n" + userU + ",2026-04-02,1," + text + "\n"
		if strings.Contains(text, ",") {
			file = strings.Replace(file, text, `"`+text+`"`, 1)
		}
		_, err := w.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{})
		if bad := refusal.FieldsOf(err); len(bad) != 1 || bad[0].Error() != "line 2, column observed_at: "+problem {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A server of 1.0.0 replaces a total and leaves its observation. A later one and a row without any replace it then, as ever.
func TestObservationsBesideAnOlderProgram(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	put := doors["batch of steps"]
	put(t, w, seen{9000, "2026-04-02T12:00:00Z"})
	for _, step := range []struct {
		row  seen
		want string
	}{
		{seen{4000, "2026-04-02T08:00:00Z"}, "5000 2026-04-02 12:00:00"},
		{seen{6000, "2026-04-02T13:00:00Z"}, "6000 2026-04-02 13:00:00"},
		{seen{7000, ""}, "7000"},
	} {
		w.Exec(t, `insert into daily_steps (user_id, date, steps) values ($1, '2026-04-02', 5000)
			on conflict (user_id, date) do update set (steps) = row (excluded.steps)`, userU)
		put(t, w, step.row)
		if got := w.value(t, "batch of steps"); got != step.want {
			t.Errorf("after %v: %s, want %s", step.row, got, step.want)
		}
	}
}
