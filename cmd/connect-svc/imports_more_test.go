package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

const stranger = "00000000-0000-4000-8000-000000000000"

func TestImportUsers(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	const header = "user_id,email,timezone,registered_on\n"
	users := header + walker + ",lovelace@example.com,Asia/Tokyo,2026-01-01\n,bob@example.com,UTC,2026-01-02\n"
	got := succeedJSON[importJSON](t, env(db), users, "import", "users", "-")
	if diff := cmp.Diff(importJSON{Rows: 2, Inserted: 1, Updated: 1}, got); diff != "" {
		t.Error(diff)
	}
	bob := succeedJSON[operatorapi.User](t, env(db), "", "user", "show", "bob@example.com")
	again := header + bob.UserId.String() + ",bob@example.com,UTC,2026-01-02\n"
	if got, want := succeed(t, env(db), "", "import", "users", writeFile(t, again)), "imported 1 row: 0 new, 0 changed, 1 unchanged\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	bad := call(t, env(db), header+walker+",nobody,Mars/Phobos,2026-01-01\n"+stranger+",BOB@example.com,UTC,2026-01-01\n,x@example.com,UTC,2026-01-01\n",
		"import", "users", "-")
	want := `connect-svc: line 2, column email: must be an address such as name@example.com, at most 254 bytes
connect-svc: line 2, column timezone: must be a name of the time zone database such as Europe/Berlin
connect-svc: line 3, column email: another user has this e-mail address
connect-svc: 2 of 3 rows cannot be taken; nothing was imported
`
	if bad.status != statusFailed || bad.stdout != "" || bad.stderr != want {
		t.Errorf("status %d, stdout %q, stderr:\n%s", bad.status, bad.stdout, bad.stderr)
	}
}

// A hundred bad rows have a line each, and one line sums up.
func TestImportNamesBadRows(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	file := "user_id,date,steps\n" + strings.Repeat(stranger+",2026-01-02,1\n"+walker+",2026-01-02,x\n"+walker+",2026-01-02,1\n", 100)
	got := call(t, env(db), file, "import", "daily-steps", "-")
	lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
	if got.status != statusFailed || len(lines) != 101 {
		t.Fatalf("status %d and %d lines", got.status, len(lines))
	}
	for i, want := range map[int]string{
		0:   "connect-svc: line 2, column user_id: no such user",
		1:   "connect-svc: line 3, column steps: must be a whole number from 0 to 2147483647",
		100: "connect-svc: 200 of 300 rows cannot be taken; the first 100 faults are named; nothing was imported",
	} {
		if lines[i] != want {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}

// A file with observed_at is taken in any order, and its rows of unknown users go to a file that has it, too.
func TestImportObserved(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	rest := filepath.Join(t.TempDir(), "rest.csv")
	const header = "user_id,date,steps,observed_at\n"
	succeed(t, env(db), header+walker+",2026-01-02,9000,2026-01-02T20:00:00Z\n", "import", "daily-steps", "-")
	late := header + walker + ",2026-01-02,4000,2026-01-02T08:00:00Z\n" + stranger + ",2026-01-02,7,2026-01-02T08:00:00+02:00\n"
	want := "imported 1 row: 0 new, 0 changed, 0 unchanged, 1 outdated; 1 row of unknown users skipped\n"
	if got := succeed(t, env(db), late, "import", "daily-steps", "-", "--skip-unknown", rest); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	skipped, err := os.ReadFile(rest)
	if want := header + stranger + ",2026-01-02,7,2026-01-02T06:00:00.000000Z\n"; err != nil || string(skipped) != want {
		t.Errorf("%q, %v; want %q", skipped, err, want)
	}
}

// --skip-unknown takes the rows of those who exist, and writes a file of the others that can be imported later.
func TestImportSkipUnknown(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	folder := t.TempDir()
	rest := filepath.Join(folder, "rest.csv")
	const header = "user_id,date,steps\n"
	file := writeFile(t, header+stranger+",2026-01-02,7\n"+walker+",2026-01-02,100\n"+stranger+",2026-01-03,8\n")
	want := "imported 1 row: 1 new, 0 changed, 0 unchanged; 2 rows of unknown users skipped\n"
	if got := succeed(t, env(db), "", "import", "daily-steps", file, "--skip-unknown", rest); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	written := func() string {
		t.Helper()
		text, err := os.ReadFile(rest)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	left := header + stranger + ",2026-01-02,7\n" + stranger + ",2026-01-03,8\n"
	if got := written(); got != left {
		t.Errorf("the file of unknown users:\n%s", got)
	}

	got := call(t, env(db), header+walker+",2026-01-04,x\n"+stranger+",2026-01-02,7\n", "import", "daily-steps", "-", "--skip-unknown", rest)
	if got.status != statusFailed || !strings.Contains(got.stderr, "line 2, column steps") || strings.Contains(got.stderr, "line 3") {
		t.Errorf("a bad row: status %d, stderr %s", got.status, got.stderr)
	}
	if written() != left {
		t.Error("an import that failed changed the file")
	}
	refuse(t, env(db), statusUsage, []string{"must not be the file"}, "import", "daily-steps", file, "--skip-unknown", file)
	refuse(t, env(db), statusFailed, []string{"--skip-unknown"}, "import", "daily-steps", file, "--skip-unknown", "/nowhere/rest.csv")

	succeed(t, env(db), "", "user", "create", "--id", stranger, "--email", "s@example.com", "--timezone", "UTC", "--registered-on", "2026-01-01")
	all := succeedJSON[importJSON](t, env(db), "", "import", "daily-steps", rest, "--skip-unknown", rest+"2")
	if diff := cmp.Diff(importJSON{Rows: 2, Inserted: 2}, all); diff != "" {
		t.Error(diff)
	}
	rides := "user_id,source_id,recorded_start_time,recorded_end_time,distance_meters\n"
	cycled := succeedJSON[importJSON](t, env(db), rides+"00000000-0000-4000-8000-000000000001,a,2026-01-02T08:00:00,,5\n",
		"import", "cycling-activities", "-", "--skip-unknown", rest)
	if diff := cmp.Diff(importJSON{Rows: 1, Skipped: 1}, cycled); diff != "" || !strings.HasPrefix(written(), rides) {
		t.Errorf("%s, written %s", diff, written())
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 2 {
		t.Errorf("files: %v, %v", files, err)
	}
}

// A place that is not a regular file, such as /dev/null, gets the rows and stays what it is. A folder is refused before anything is imported.
func TestImportSkipUnknownKeepsADevice(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	folder := t.TempDir()
	const header = "user_id,date,steps\n"
	file := writeFile(t, header+stranger+",2026-01-02,7\n"+walker+",2026-01-02,100\n")
	refuse(t, env(db), statusFailed, []string{"--skip-unknown"}, "import", "daily-steps", file, "--skip-unknown", folder)
	if got := stepsOf(t, db); got != "" {
		t.Errorf("with a folder there was imported %s", got)
	}

	pipe := filepath.Join(folder, "rest")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // both, so that nobody waits for the other end
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for range 2 {
		succeed(t, env(db), "", "import", "daily-steps", file, "--skip-unknown", pipe)
		if info, err := os.Stat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
			t.Fatalf("the pipe is now %v, %v", info.Mode(), err)
		}
		read := make([]byte, 1000)
		n, err := reader.Read(read)
		if want := header + stranger + ",2026-01-02,7\n"; err != nil || string(read[:n]) != want {
			t.Errorf("%q, %v; want %q", read[:n], err, want)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("files: %v, %v", files, err)
	}
}

// A row of a table is a line, also if an app has sent a note of several.
func TestRowsAreLines(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	succeed(t, env(db), "", "adjust", "steps", "--user", walker, "--date", "2026-01-02", "--delta", "5", "--note", "on a swing\nseen by support")
	if got := succeed(t, env(db), "", "adjust", "list", "--user", walker); strings.Count(got, "\n") != 2 || !strings.Contains(got, "on a swing seen by support") {
		t.Errorf("the list:\n%s", got)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	succeed(t, env(db), "user_id,date,steps\n"+walker+",2026-01-02,100\n", "import", "daily-steps", "-")
	succeed(t, env(db), "user_id,source_id,recorded_start_time,recorded_end_time,distance_meters\n"+walker+",r1,2026-01-02T08:00:00,,5\n",
		"import", "cycling-activities", "-")
	day := []string{"--user", walker, "--date", "2026-01-02", "--note", "n"}
	walked := succeedJSON[operatorapi.Adjustment](t, env(db), "", append([]string{"adjust", "steps", "--delta", "5"}, day...)...)
	ridden := succeedJSON[operatorapi.Adjustment](t, env(db), "", append([]string{"adjust", "cycling", "--delta-meters", "5"}, day...)...)
	for _, what := range [][]string{
		{"steps", "--date", "2026-01-02"}, {"ride", "--source-id", "r1"},
		{"adjustment", "--id", walked.AdjustmentId.String()}, {"adjustment", "--id", ridden.AdjustmentId.String()},
	} {
		args := append(append([]string{"remove"}, what...), "--user", walker)
		refuse(t, env(db), statusUsage, []string{"add --yes"}, args...)
		args = append(args, "--yes")
		if got := succeedJSON[operatorapi.Removed](t, env(db), "", args...); got.Removed != 1 {
			t.Errorf("%v: %+v", what, got)
		}
		refuse(t, env(db), statusFailed, []string{"has not"}, args...)
		args[len(args)-2] = stranger
		refuse(t, env(db), statusFailed, []string{"no such user"}, args...)
	}
	if n := pgtest.Value[int](t, db, `select ((select count(*) from daily_steps) + (select count(*) from cycling_activities)
		+ (select count(*) from step_corrections) + (select count(*) from cycling_adjustments))::int`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	// Corrections by hand are in the audit log, and so is what is taken back of them.
	noted := pgtest.Value[[]string](t, db, `select array_agg(actor || ' ' || action || ' ' || (detail ->> 'adjustment_id') order by at, id)
		from audit_log where action like 'activity.adj%'`)
	if diff := cmp.Diff([]string{
		"cli:grace activity.adjusted " + walked.AdjustmentId.String(), "cli:grace activity.adjusted " + ridden.AdjustmentId.String(),
		"cli:grace activity.adjustment_removed " + walked.AdjustmentId.String(), "cli:grace activity.adjustment_removed " + ridden.AdjustmentId.String(),
	}, noted); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
	refuse(t, env(db), statusUsage, []string{"--date: must"}, "remove", "steps", "--user", walker, "--date", "1800-01-01", "--yes")
}
