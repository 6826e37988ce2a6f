package activity_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/pgtest"
)

// A file of several parts: all rows are stored, in whichever order they come, and progress is reported for each part.
func TestImportInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const users, days = 100, 400
	w.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(1, $1) n`, users)
	ids := strings.Fields(pgtest.Value[string](t, w.DB, "select string_agg(user_id::text, ' ') from users"))
	file := func(steps int) *strings.Reader {
		var text strings.Builder
		text.WriteString(stepsHeader)
		for d := range days {
			date := day("2025-01-01").AddDate(0, 0, d).Format(time.DateOnly)
			for _, id := range ids {
				fmt.Fprintf(&text, "%s,%s,%d\n", id, date, steps+d%2)
			}
		}
		return strings.NewReader(text.String())
	}
	const rows = users * days
	for _, round := range []struct {
		steps int
		want  activity.Result
	}{
		{7, activity.Result{Rows: rows, Inserted: rows}},
		{7, activity.Result{Rows: rows, Unchanged: rows}},
		{8, activity.Result{Rows: rows, Updated: rows}},
	} {
		var stored []int64
		got, err := w.ImportDailySteps(t.Context(), file(round.steps), activity.ImportOptions{Progress: func(p intake.Progress) {
			if p.Storing {
				stored = append(stored, p.Stored)
			}
		}})
		if err != nil || got != round.want {
			t.Fatalf("%+v, %v; want %+v", got, err, round.want)
		}
		if len(stored) < rows/5000 || !slices.IsSorted(stored) || stored[0] != 0 || stored[len(stored)-1] != rows {
			t.Errorf("progress %v", stored)
		}
		sum := pgtest.Value[int64](t, w.DB, "select sum(steps) from daily_steps")
		if want := int64(rows*round.steps + rows/2); sum != want {
			t.Errorf("%d steps are stored, want %d", sum, want)
		}
	}
}

// All bad rows of a file are found, a hundred are named in the order of their lines, and all are counted.
func TestImportNamesAllBadRows(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	take := func(file string) (*refusal.Fields, []string) {
		t.Helper()
		_, err := w.ImportDailySteps(t.Context(), strings.NewReader(names.Replace(file)), activity.ImportOptions{})
		var bad *refusal.Fields
		if !errors.As(err, &bad) {
			t.Fatal(err)
		}
		var named []string
		for _, row := range bad.Named {
			named = append(named, row.Error())
		}
		return bad, named
	}
	bad, named := take(stepsHeader + "U,2026-04-02,5\nX,2026-04-02,5\nx,2026-04-31,-1\nU,2026-04\"-03,1\nU,2026-04-03\nU,2026-04-03,5\n" +
		"X,2026-04-03,5\nU,2026-04-04,x\n")
	const count = "must be a whole number from 0 to 2147483647"
	if diff := cmp.Diff([]string{
		"line 3, column user_id: no such user",
		"line 4, column user_id: must be a UUID",
		"line 4, column date: must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31",
		"line 4, column steps: " + count,
		`line 5: bare " in non-quoted-field`,
		"line 6: must have 3 columns, has 2",
		"line 8, column user_id: no such user",
		"line 9, column steps: " + count,
	}, named); diff != "" {
		t.Errorf("named (-want +got):\n%s", diff)
	}
	if got, want := bad.Error(), "6 of 8 rows cannot be taken"; got != want {
		t.Errorf("summed up as %q, want %q", got, want)
	}

	bad, named = take(stepsHeader + strings.Repeat("X,2026-04-02,5\nU,2026-04-02,x\nU,2026-04-02,5\n", 200))
	if len(named) != refusal.MaxNamed || !strings.HasPrefix(named[0], "line 2, column user_id") || !strings.HasPrefix(named[99], "line 150, column steps") {
		t.Errorf("%d are named, from %s to %s", len(named), named[0], named[len(named)-1])
	}
	if got, want := bad.Error(), "400 of 600 rows cannot be taken; the first 100 faults are named"; got != want {
		t.Errorf("summed up as %q, want %q", got, want)
	}

	bad, named = take(stepsHeader + "X,2026-04-02,5\nU,\"" + strings.Repeat("2026-04-03,1\n", 100_000))
	if got, want := bad.Error(), "2 rows cannot be taken, and the file cannot be read to its end"; got != want || len(named) != 2 {
		t.Errorf("summed up as %q, want %q; named %v", got, want, named)
	}
	if got := strings.Join(w.stored(t, "daily_steps"), ";"); got != "2026-04-01 1000" {
		t.Errorf("stored: %s", got)
	}
}

// The rows of unknown users are passed on as the file has them, and the others are taken. Other bad rows are as bad as ever.
func TestImportSkipsUnknownUsers(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	var skipped []string
	options := activity.ImportOptions{SkipUnknown: func(row []string) error {
		skipped = append(skipped, names.Replace(strings.Join(row, ",")+"\n"))
		return nil
	}}
	steps := "X,2026-04-02,5\nU,2026-04-02,5\nX,2026-04-01,7\nX,2026-04-02,6\n"
	got, err := w.ImportDailySteps(t.Context(), strings.NewReader(stepsHeader+names.Replace(steps)), options)
	if want := (activity.Result{Rows: 4, Inserted: 1, Skipped: 3}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	want := []string{names.Replace(stepsHeader), names.Replace("X,2026-04-02,5\n"), names.Replace("X,2026-04-01,7\n"), names.Replace("X,2026-04-02,6\n")}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}

	skipped = nil
	rides := "X,\"a,b\",2026-04-02T08:00:00.5,2026-04-02T09:00:00,7\nX,c,2026-04-02T08:00:00,,8\nU,r2,2026-04-02T08:00:00,,9\n"
	got, err = w.ImportCyclingActivities(t.Context(), strings.NewReader(ridesHeader+names.Replace(rides)), options)
	if want := (activity.Result{Rows: 3, Inserted: 1, Skipped: 2}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	want = []string{
		names.Replace(ridesHeader), names.Replace("X,a,b,2026-04-02T08:00:00.500000,2026-04-02T09:00:00.000000,7\n"), names.Replace("X,c,2026-04-02T08:00:00.000000,,8\n"),
	}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}

	before := w.stored(t, "daily_steps")
	_, err = w.ImportDailySteps(t.Context(), strings.NewReader(stepsHeader+names.Replace("U,2026-04-09,1\nX,2026-04-09,1\nU,2026-04-09,x\n")), options)
	if bad := (*refusal.Fields)(nil); !errors.As(err, &bad) || bad.Count != 1 || bad.Named[0].Row != 4 {
		t.Errorf("a bad row: %v", err)
	}
	full := errors.New("disk full")
	options.SkipUnknown = func([]string) error { return full }
	_, err = w.ImportDailySteps(t.Context(), strings.NewReader(stepsHeader+names.Replace("U,2026-04-09,1\nX,2026-04-09,1\n")), options)
	if !errors.Is(err, full) {
		t.Errorf("a file that cannot be written: %v", err)
	}
	if diff := cmp.Diff(before, w.stored(t, "daily_steps")); diff != "" {
		t.Errorf("stored (-before +after):\n%s", diff)
	}
}
