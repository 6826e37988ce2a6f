package activity_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/refusal"
)

const (
	stepsHeader = "user_id,date,steps\n"
	ridesHeader = "user_id,source_id,recorded_start_time,recorded_end_time,distance_meters\n"
)

// Users that files name: U exists, X does not.
const userU, userX = "3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01", "3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a02"

var names = strings.NewReplacer("U,", userU+",", "X,", userX+",")

// newImportWorld has the user U and a step total and a ride of hers.
func newImportWorld(t *testing.T) world {
	w := newWorld(t)
	w.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		values ($1, 'u@user.example', 'UTC', '2020-01-01', now())`, userU)
	w.putSteps(t, uuid.MustParse(userU), "2026-04-01", 1000)
	w.putRides(t, activity.RideRecord{
		UserID: uuid.MustParse(userU), SourceID: "r1", Start: clock("2026-04-01T08:00:00"),
		End: clock("2026-04-01T09:00:00"), DistanceMeters: 1000,
	})
	return w
}

// stored lists a table in the order of its key, a row a line.
func (w world) stored(t *testing.T, table string) []string {
	t.Helper()
	columns := map[string]string{
		"daily_steps":        "date, steps",
		"cycling_activities": "source_id, start_time, coalesce(end_time::text, 'unknown'), distance_meters",
	}[table]
	rows, err := w.Pool.Query(t.Context(), fmt.Sprintf("select concat_ws(' ', %s) from %s order by 1", columns, table))
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestImportDailySteps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file string
		result     activity.Result
		stored     []string
	}{
		{
			"empty file", stepsHeader,
			activity.Result{},
			[]string{"2026-04-01 1000"},
		},
		{
			"new, changed and unchanged rows", stepsHeader + "U,2026-04-02,5\nU,2026-04-01,1000\nU,2026-04-03,0\n",
			activity.Result{Rows: 3, Inserted: 2, Unchanged: 1},
			[]string{"2026-04-01 1000", "2026-04-02 5", "2026-04-03 0"},
		},
		{
			"changed row", stepsHeader + "U,2026-04-01,1001\n",
			activity.Result{Rows: 1, Updated: 1},
			[]string{"2026-04-01 1001"},
		},
		{
			"last row of a key wins", stepsHeader + "U,2026-04-01,7\nU,2026-04-02,8\nU,2026-04-02,9\nU,2026-04-01,6\n",
			activity.Result{Rows: 4, Inserted: 1, Updated: 1, Unchanged: 2},
			[]string{"2026-04-01 6", "2026-04-02 9"},
		},
		{
			"last row of a key wins, also when it is what is stored", stepsHeader + "U,2026-04-01,7\nU,2026-04-01,1000\n",
			activity.Result{Rows: 2, Unchanged: 2},
			[]string{"2026-04-01 1000"},
		},
		{
			"byte order mark, CRLF, quotes, blank line, no last line end",
			"\xef\xbb\xbfuser_id,date,steps\r\n\r\nU,\"2026-04-02\",5\r\nU,2026-04-03,6",
			activity.Result{Rows: 2, Inserted: 2},
			[]string{"2026-04-01 1000", "2026-04-02 5", "2026-04-03 6"},
		},
		{
			"bounds", stepsHeader + "U,1900-01-01,0\nU,2026-11-20,2147483647\n",
			activity.Result{Rows: 2, Inserted: 2},
			[]string{"1900-01-01 0", "2026-04-01 1000", "2026-11-20 2147483647"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newImportWorld(t)
			result, err := w.ImportDailySteps(t.Context(), strings.NewReader(names.Replace(test.file)), activity.ImportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.result, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.stored, w.stored(t, "daily_steps")); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImportCyclingActivities(t *testing.T) {
	t.Parallel()
	const r1 = "r1 2026-04-01 08:00:00 2026-04-01 09:00:00 1000"
	for _, test := range []struct {
		name, rows string
		result     activity.Result
		stored     []string
	}{
		{
			"new and unchanged rides",
			"U,r1,2026-04-01T08:00:00,2026-04-01T09:00:00,1000\nU,r2,2026-04-01T08:00:00.123456,2026-04-01T08:00:00.5,7\n",
			activity.Result{Rows: 2, Inserted: 1, Unchanged: 1},
			[]string{r1, "r2 2026-04-01 08:00:00.123456 2026-04-01 08:00:00.5 7"},
		},
		{
			"a ride whose start changed replaces itself", "U,r1,2026-03-30T08:00:00,2026-04-01T09:00:00,1000\n",
			activity.Result{Rows: 1, Updated: 1},
			[]string{"r1 2026-03-30 08:00:00 2026-04-01 09:00:00 1000"},
		},
		{
			"an end that became unknown", "U,r1,2026-04-01T08:00:00,,1000\n",
			activity.Result{Rows: 1, Updated: 1},
			[]string{"r1 2026-04-01 08:00:00 unknown 1000"},
		},
		{
			"last row of a source id wins", "U,r2,2026-04-02T08:00:00,,1\nU,r2,2026-04-03T08:00:00,,2\n",
			activity.Result{Rows: 2, Inserted: 1, Unchanged: 1},
			[]string{r1, "r2 2026-04-03 08:00:00 unknown 2"},
		},
		{
			"2.7 ends that are no clock time or lie before the start are unknown",
			"U,a,2026-04-02T08:00:00,2026-04-02T25:00:00,1\n" +
				"U,b,2026-04-02T08:00:00,2026-02-30T09:00:00,1\n" +
				"U,c,2026-04-02T08:00:00,nonsense,1\n" +
				"U,d,2026-04-02T08:00:00,2026-04-02T09:00:00Z,1\n" +
				"U,e,2026-04-02T08:00:00,2026-04-02T9:00:00.5,1\n" +
				"U,f,2026-04-02T08:00:00,2026-04-02T07:59:59.999999,1\n" +
				"U,g,2026-04-02T08:00:00,2026-04-02T08:00:00,1\n" +
				"U,h,2026-04-02T08:00:00,0000-01-01T00:00:00,1\n",
			activity.Result{Rows: 8, Inserted: 8},
			[]string{
				"a 2026-04-02 08:00:00 unknown 1", "b 2026-04-02 08:00:00 unknown 1", "c 2026-04-02 08:00:00 unknown 1",
				"d 2026-04-02 08:00:00 unknown 1", "e 2026-04-02 08:00:00 unknown 1", "f 2026-04-02 08:00:00 unknown 1",
				"g 2026-04-02 08:00:00 2026-04-02 08:00:00 1", "h 2026-04-02 08:00:00 unknown 1", r1,
			},
		},
		{
			"names with commas, quotes, line breaks and other scripts",
			"U,\"a,\"\"b\"\"\nc\",2026-04-02T08:00:00,,1\nU,прогулка,2026-04-02T08:00:00,,2\n",
			activity.Result{Rows: 2, Inserted: 2},
			[]string{"a,\"b\"\nc 2026-04-02 08:00:00 unknown 1", r1, "прогулка 2026-04-02 08:00:00 unknown 2"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newImportWorld(t)
			file := strings.NewReader(ridesHeader + names.Replace(test.rows))
			result, err := w.ImportCyclingActivities(t.Context(), file, activity.ImportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.result, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.stored, w.stored(t, "cycling_activities")); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// A bad row is reported with its line, its column and the reason, and nothing of the file is taken.
func TestImportBadRows(t *testing.T) {
	t.Parallel()
	const good = "U,2026-04-01,5\nU,2026-04-02,5\n"
	const ride = "U,r2,2026-04-01T08:00:00,,5\n"
	for _, test := range []struct {
		name, header, rows, want string
	}{
		{"no header", "", "", "line 1: the header must be user_id,date,steps"},
		{"wrong header", "user,date,steps\n", good, "line 1: the header must be user_id,date,steps"},
		{"header in another order", "user_id,steps,date\n", good, "line 1: the header must be user_id,date,steps"},
		{"header of the other file", ridesHeader, good, "line 1: the header must be user_id,date,steps"},
		{"too few columns", stepsHeader, good + "U,2026-04-03\n", "line 4: must have 3 columns, has 2"},
		{"too many columns", stepsHeader, good + "U,2026-04-03,1,\n", "line 4: must have 3 columns, has 4"},
		{"user id", stepsHeader, good + "7,2026-04-03,1\n", "line 4, column user_id: must be a UUID"},
		{"user id in braces", stepsHeader, "{" + userU + "},2026-04-03,1\n", "line 2, column user_id: must be a UUID"},
		{"date", stepsHeader, good + "U,2026-04-31,1\n", "line 4, column date: must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31"},
		{"date before 1900", stepsHeader, "U,1899-12-31,1\n", "line 2, column date: must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31"},
		{"date with time", stepsHeader, "U,2026-04-01T00:00:00,1\n", "line 2, column date: must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31"},
		{"negative", stepsHeader, good + "U,2026-04-03,-1\n", "line 4, column steps: must be a whole number from 0 to 2147483647"},
		{"sign", stepsHeader, good + "U,2026-04-03,+1\n", "line 4, column steps: must be a whole number from 0 to 2147483647"},
		{"32 bits", stepsHeader, good + "U,2026-04-03,2147483648\n", "line 4, column steps: must be a whole number from 0 to 2147483647"},
		{"fraction", stepsHeader, good + "U,2026-04-03,1.5\n", "line 4, column steps: must be a whole number from 0 to 2147483647"},
		{"no number", stepsHeader, good + "U,2026-04-03,\n", "line 4, column steps: must be a whole number from 0 to 2147483647"},
		{"blank", stepsHeader, good + "U,2026-04-03, 1\n", "line 4, column steps: must be a whole number from 0 to 2147483647"},
		{"NUL", stepsHeader, good + "U,2026-04-03,1\x00\n", "line 4, column steps: must be UTF-8 without NUL"},
		{"not UTF-8", stepsHeader, good + "U,2026-04-03\xff,1\n", "line 4, column date: must be UTF-8 without NUL"},
		{"stray quote", stepsHeader, good + "U,2026-04\"-03,1\n", "line 4: bare \" in non-quoted-field"},
		{"open quote", stepsHeader, good + "U,\"2026-04-03,1\n", "line 4: extraneous or missing \" in quoted-field"},
		{"quote open for very long", stepsHeader, good + "U,\"" + strings.Repeat("2026-04-03,1\n", 100_000), "line 4: must be shorter than 1 MiB: is a closing quote missing?"},
		{"unknown user", stepsHeader, good + "X,2026-04-03,1\nU,2026-04-04,1\n", "line 4, column user_id: no such user"},
		{"lines, not rows, are counted", stepsHeader, "\n\n" + good + "X,2026-04-03,1\n", "line 6, column user_id: no such user"},
		{"unknown user before a bad row", stepsHeader, "X,2026-04-03,1\nX,2026-04-04,1\nU,bad,1\n", "line 2, column user_id: no such user"},
		{"unknown user after a bad row", stepsHeader, "U,2026-04-03,x\nX,2026-04-03,1\n", "line 2, column steps: must be a whole number from 0 to 2147483647"},

		{"rides: wrong header", stepsHeader, ride, "line 1: the header must be " + strings.TrimSpace(ridesHeader)},
		{"rides: no source id", ridesHeader, ride + "U,,2026-04-01T08:00:00,,5\n", "line 3, column source_id: must have 1 to 128 bytes of UTF-8 without NUL"},
		{"rides: long source id", ridesHeader, "U," + strings.Repeat("é", 65) + ",2026-04-01T08:00:00,,5\n", "line 2, column source_id: must have 1 to 128 bytes of UTF-8 without NUL"},
		{"rides: start with zone", ridesHeader, ride + "U,r3,2026-04-01T08:00:00Z,,5\n", "line 3, column recorded_start_time: must be a clock time YYYY-MM-DDTHH:MM:SS with up to 6 fractional digits and no zone"},
		{"rides: start with blank", ridesHeader, ride + "U,r3,2026-04-01 08:00:00,,5\n", "line 3, column recorded_start_time: must be a clock time YYYY-MM-DDTHH:MM:SS with up to 6 fractional digits and no zone"},
		{"rides: 7 fractional digits", ridesHeader, ride + "U,r3,2026-04-01T08:00:00.1234567,,5\n", "line 3, column recorded_start_time: must be a clock time YYYY-MM-DDTHH:MM:SS with up to 6 fractional digits and no zone"},
		{"rides: second 60", ridesHeader, ride + "U,r3,2026-04-01T08:00:60,,5\n", "line 3, column recorded_start_time: must be a clock time YYYY-MM-DDTHH:MM:SS with up to 6 fractional digits and no zone"},
		{"rides: no start", ridesHeader, ride + "U,r3,,,5\n", "line 3, column recorded_start_time: must be a clock time YYYY-MM-DDTHH:MM:SS with up to 6 fractional digits and no zone"},
		{"rides: no distance", ridesHeader, ride + "U,r3,2026-04-01T08:00:00,,\n", "line 3, column distance_meters: must be a whole number from 0 to 2147483647"},
		{"rides: NUL in the end", ridesHeader, ride + "U,r3,2026-04-01T08:00:00,\x00,5\n", "line 3, column recorded_end_time: must be UTF-8 without NUL"},
		{"rides: unknown user", ridesHeader, ride + "X,r3,2026-04-01T08:00:00,,5\n", "line 3, column user_id: no such user"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newImportWorld(t)
			table, take := "daily_steps", w.ImportDailySteps
			if strings.HasPrefix(test.name, "rides: ") {
				table, take = "cycling_activities", w.ImportCyclingActivities
			}
			before := w.stored(t, table)
			result, err := take(t.Context(), strings.NewReader(test.header+names.Replace(test.rows)), activity.ImportOptions{})
			if bad := refusal.FieldsOf(err); len(bad) == 0 || bad[0].Error() != test.want {
				t.Errorf("error %v: %v\nwant %s", err, bad, test.want)
			}
			if result != (activity.Result{}) {
				t.Errorf("result %+v of an import that failed", result)
			}
			if diff := cmp.Diff(before, w.stored(t, table)); diff != "" {
				t.Errorf("stored (-before +after):\n%s", diff)
			}
		})
	}
}

// A file that breaks off is not taken.
func TestImportBrokenFile(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	broken := errors.New("cable cut")
	file := io.MultiReader(strings.NewReader(stepsHeader+names.Replace("U,2026-04-02,5\n")), iotest.ErrReader(broken))
	_, err := w.ImportDailySteps(t.Context(), file, activity.ImportOptions{})
	if !strings.Contains(fmt.Sprint(err), "cable cut") {
		t.Errorf("error %v, want %v", err, broken)
	}
	if diff := cmp.Diff([]string{"2026-04-01 1000"}, w.stored(t, "daily_steps")); diff != "" {
		t.Errorf("stored (-before +after):\n%s", diff)
	}
}

// Rows that are stored as they come are not rewritten, nor even locked.
func TestImportLeavesUnchangedRows(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	versions := func() string {
		var text string
		if err := w.Pool.QueryRow(t.Context(), `select
			(select string_agg(concat_ws(' ', ctid, xmin, xmax), ';') from daily_steps) || '/' ||
			(select string_agg(concat_ws(' ', ctid, xmin, xmax), ';') from cycling_activities)`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := versions()
	steps := strings.NewReader(stepsHeader + names.Replace("U,2026-04-01,1000\n"))
	if _, err := w.ImportDailySteps(t.Context(), steps, activity.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	rides := strings.NewReader(ridesHeader + names.Replace("U,r1,2026-04-01T08:00:00,2026-04-01T09:00:00,1000\n"))
	if _, err := w.ImportCyclingActivities(t.Context(), rides, activity.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if after := versions(); after != before {
		t.Errorf("row versions %s became %s", before, after)
	}
}

func TestImportProgress(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	var file strings.Builder
	file.WriteString("\xef\xbb\xbf" + stepsHeader)
	for i := range 25_000 {
		fmt.Fprintf(&file, "%s,2026-04-01,%d\n", userU, i)
	}
	var seen []intake.Progress
	if _, err := w.ImportDailySteps(t.Context(), strings.NewReader(file.String()), activity.ImportOptions{
		Progress: func(p intake.Progress) { seen = append(seen, p) },
	}); err != nil {
		t.Fatal(err)
	}
	bytes := int64(file.Len())
	if diff := cmp.Diff([]intake.Progress{
		{Rows: 10_000, Bytes: seen[0].Bytes},
		{Rows: 20_000, Bytes: seen[1].Bytes},
		{Rows: 25_000, Bytes: bytes, Storing: true},
		{Rows: 25_000, Bytes: bytes, Storing: true, Stored: 25_000},
	}, seen); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// Writers of the same rows at the same time wait for each other, and none fails.
func TestConcurrentWrites(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	const writers, rounds, rows = 6, 12, 20
	for round := range rounds {
		var group sync.WaitGroup
		start := make(chan struct{})
		for writer := range writers {
			group.Go(func() {
				steps, rides := make([]activity.StepsRecord, rows), make([]activity.RideRecord, rows)
				for i := range rows {
					n := i
					if writer%2 == 1 {
						n = rows - 1 - i // the other way round
					}
					date := day("2026-01-01").AddDate(0, 0, n)
					steps[i] = activity.StepsRecord{UserID: user, Date: date, Steps: writer + 1}
					rides[i] = activity.RideRecord{UserID: user, SourceID: fmt.Sprint(round, n), Start: date, DistanceMeters: writer + 1}
				}
				<-start
				if _, err := w.Put(t.Context(), activity.Batch{DailySteps: steps}); err != nil {
					t.Error(err)
				}
				if _, err := w.Put(t.Context(), activity.Batch{CyclingActivities: rides}); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		group.Wait()
	}
	for table, want := range map[string]int{"daily_steps": rows + 1, "cycling_activities": rounds*rows + 1} {
		if got := len(w.stored(t, table)); got != want {
			t.Errorf("%d rows in %s, want %d", got, table, want)
		}
	}
}
