package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

const walker = "6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10"

// withWalker is a database with one user.
func withWalker(t *testing.T) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t)
	succeed(t, env(db), "", "user", "create", "--id", walker, "--email", "ada@example.com", "--timezone", "UTC",
		"--registered-on", "2026-01-01")
	return db
}

// stepsOf is what is recorded, without corrections.
func stepsOf(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	return pgtest.Value[string](t, db, "select coalesce(string_agg(date || '=' || steps, ' ' order by date), '') from daily_steps")
}

func TestImportDailySteps(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	file := writeFile(t, "user_id,date,steps\n"+walker+",2026-01-02,100\n"+walker+",2026-01-03,200\n")
	first := succeedJSON[importJSON](t, env(db), "", "import", "daily-steps", file)
	if diff := cmp.Diff(importJSON{Rows: 2, Inserted: 2}, first); diff != "" {
		t.Error(diff)
	}
	again := "user_id,date,steps\n" + walker + ",2026-01-03,250\n" + walker + ",2026-01-02,100\n" + walker + ",2026-01-04,0\n"
	if got, want := succeed(t, env(db), again, "import", "daily-steps", "-"), "imported 3 rows: 1 new, 1 changed, 1 unchanged\n"; got != want {
		t.Errorf("the upsert: %q, want %q", got, want)
	}
	if got := stepsOf(t, db); got != "2026-01-02=100 2026-01-03=250 2026-01-04=0" {
		t.Errorf("stored: %s", got)
	}
}

func TestImportCyclingActivities(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	const header = "user_id,source_id,recorded_start_time,recorded_end_time,distance_meters\n"
	rides := header +
		walker + ",a,2026-01-02T08:00:00,2026-01-02T09:00:00,12000\n" +
		walker + ",b,2026-01-02T18:00:00.5,,5000\n" +
		walker + ",c,2026-01-03T08:00:00,2026-01-03T07:00:00,1\n"
	if got := succeedJSON[importJSON](t, env(db), rides, "import", "cycling-activities", "-"); got.Inserted != 3 {
		t.Errorf("%+v", got)
	}
	const ends = "select string_agg(source_id || '=' || coalesce(end_time::text, 'unknown'), ' ' order by source_id) from cycling_activities"
	if got := pgtest.Value[string](t, db, ends); got != "a=2026-01-02 09:00:00 b=unknown c=unknown" {
		t.Errorf("stored: %s", got)
	}
}

// Decisions section 1: an import takes a whole file or leaves the data untouched, and names line, column and reason.
func TestImportRefusals(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	good := walker + ",2026-01-02,100\n"
	for name, tt := range map[string]struct {
		file string
		says []string
	}{
		"bad number":   {"user_id,date,steps\n" + good + walker + ",2026-01-03,many\n", []string{"line 3", "column steps", "whole number"}},
		"bad date":     {"user_id,date,steps\n" + good + walker + ",2026-02-30,1\n", []string{"line 3", "column date"}},
		"unknown user": {"user_id,date,steps\n" + good + "00000000-0000-4000-8000-000000000000,2026-01-03,1\n", []string{"line 3", "column user_id"}},
		"bad header":   {"user,date,steps\n" + good, []string{"line 1"}},
		"empty":        {"", []string{"header"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := call(t, env(db), tt.file, "import", "daily-steps", "-")
			if first, summary, two := strings.Cut(strings.TrimSuffix(got.stderr, "\n"), "\n"); two {
				if want := "connect-svc: 1 of 2 rows cannot be taken; nothing was imported"; summary != want {
					t.Errorf("summed up as %q, want %q", summary, want)
				}
				got.stderr = first + "\n"
			}
			checkRefusal(t, got, statusFailed, tt.says)
			if got := stepsOf(t, db); got != "" {
				t.Errorf("rows were taken in: %s", got)
			}
		})
	}
	refuse(t, env(db), statusFailed, []string{"no such file"}, "import", "daily-steps", "/nowhere/steps.csv")
	refuse(t, env(db), statusUsage, []string{"<file>"}, "import", "daily-steps")
}

// Ctrl-C in the middle of an import, even of one that waits for its input, leaves the data untouched.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	ctx, interrupt := context.WithCancel(t.Context())
	source, feed := io.Pipe()
	t.Cleanup(func() { _ = feed.Close() })
	var stdout, stderr bytes.Buffer
	status := make(chan int)
	go func() {
		status <- run(ctx, []string{"import", "daily-steps", "-"}, env(db), source, &stdout, &stderr)
	}()
	fmt.Fprintf(feed, "user_id,date,steps\n%s,2026-01-02,100\n", walker) // returns when it was read
	interrupt()
	checkRefusal(t, outcome{<-status, stdout.String(), stderr.String()}, statusFailed, []string{"stopped", "nothing was imported"})
	if got := stepsOf(t, db); got != "" {
		t.Errorf("rows were taken in: %s", got)
	}
}

// An import that is interrupted while it is committed, such as while a standby is away, does not say that nothing was imported: it may have been.
func TestImportInterruptedAtItsEnd(t *testing.T) {
	pgtest.NotOnCluster(t, "a shard has no trigger")
	t.Parallel()
	db := withWalker(t)
	succeed(t, env(db), "user_id,date,steps\n"+walker+",2026-01-02,100\n", "import", "daily-steps", "-")
	db.Exec(t, "create function slow() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(1); return null; end $$")
	db.Exec(t, `create constraint trigger slow after update on daily_steps deferrable initially deferred for each row execute function slow()`)
	commit, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer commit.Rollback(t.Context()) //nolint:errcheck // it was rolled back, or the test has failed
	if _, err := commit.Exec(t.Context(), "select pg_advisory_xact_lock(1)"); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	says, stderr := io.Pipe()
	var stdout bytes.Buffer
	status := make(chan int)
	go func() {
		file := strings.NewReader("user_id,date,steps\n" + walker + ",2026-01-02,200\n")
		status <- run(ctx, []string{"import", "daily-steps", "-"}, env(db), file, &stdout, stderr)
	}()
	wait.Until(t, "the import is committed", func() bool {
		return pgtest.Value[bool](t, db, "select exists (select from pg_locks where locktype = 'advisory' and not granted)")
	})
	interrupt()
	line, err := bufio.NewReader(says).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := commit.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkRefusal(t, outcome{<-status, stdout.String(), line}, statusFailed, []string{"stopped", "the file may have been imported"})
	wait.Until(t, "it is imported", func() bool { return stepsOf(t, db) == "2026-01-02=200" })
}

// Nor does an import that loses its connection while it is committed, such as when PostgreSQL restarts.
func TestImportCutOffAtItsEnd(t *testing.T) {
	pgtest.NotOnCluster(t, "a shard has no trigger")
	t.Parallel()
	db := withWalker(t)
	succeed(t, env(db), "user_id,date,steps\n"+walker+",2026-01-02,100\n", "import", "daily-steps", "-")
	db.Exec(t, "create function cut() returns trigger language plpgsql as $$ begin perform pg_terminate_backend(pg_backend_pid(), 60000); return null; end $$")
	db.Exec(t, `create constraint trigger cut after update on daily_steps deferrable initially deferred for each row execute function cut()`)
	got := call(t, env(db), "user_id,date,steps\n"+walker+",2026-01-02,200\n", "import", "daily-steps", "-")
	checkRefusal(t, got, statusFailed, []string{"while it was committed", "the file may have been imported"})
}

// An import reads a pipe by its name as it reads standard input: it can be stopped while nothing comes.
func TestImportOfAPipeInterrupted(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	feed, err := os.OpenFile(pipe, os.O_RDWR, 0) // both, so that nobody waits for the other end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = feed.Close() })
	ctx, interrupt := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	status := make(chan int, 1)
	go func() { status <- run(ctx, []string{"import", "daily-steps", pipe}, env(db), nil, &stdout, &stderr) }()
	fmt.Fprintf(feed, "user_id,date,steps\n%s,2026-01-02,100\n%s", walker, strings.Repeat("\n", 1<<20)) // more than a pipe holds: returns when it was read
	interrupt()
	checkRefusal(t, outcome{wait.For(t, "the import's end", status), stdout.String(), stderr.String()}, statusFailed, []string{"stopped", "nothing was imported"})
	if got := stepsOf(t, db); got != "" {
		t.Errorf("rows were taken in: %s", got)
	}
}

func TestAdjust(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	steps := succeedJSON[operatorapi.Adjustment](t, env(db), "", "adjust", "steps", "--user", walker, "--date", "2026-01-02", "--delta", "-500", "--note", "swing")
	if steps.UserId.String() != walker || steps.Date != onDay("2026-01-02") || steps.Delta != -500 || steps.Note != "swing" {
		t.Errorf("%+v", steps)
	}
	if got := succeed(t, env(db), "", "adjust", "cycling", "--user", walker, "--date", "2026-01-02", "--delta-meters", "1200", "--note", "tunnel"); !strings.HasPrefix(got, "+1200 metres on 2026-01-02: adjustment ") {
		t.Errorf("%q", got)
	}
	if got := pgtest.Value[string](t, db, "select user_id || ' ' || date || ' ' || delta || ' ' || note from step_corrections"); got != walker+" 2026-01-02 -500 swing" {
		t.Errorf("stored: %s", got)
	}
	if got := pgtest.Value[string](t, db, "select user_id || ' ' || date || ' ' || delta_meters || ' ' || note from cycling_adjustments"); got != walker+" 2026-01-02 1200 tunnel" {
		t.Errorf("stored: %s", got)
	}
}

func TestAdjustRefusals(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	steps := func(user, day, delta, note string) []string {
		return []string{"adjust", "steps", "--user", user, "--date", day, "--delta=" + delta, "--note", note}
	}
	for name, tt := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"unknown user": {steps("00000000-0000-4000-8000-000000000000", "2026-01-02", "1", "n"), statusFailed, "no such user"},
		"user":         {steps("ada", "2026-01-02", "1", "n"), statusUsage, "--user"},
		"date":         {steps(walker, "2.1.2026", "1", "n"), statusUsage, "--date: must be a date"},
		"nothing":      {steps(walker, "2026-01-02", "0", "n"), statusUsage, "--delta"},
		"too much":     {steps(walker, "2026-01-02", "2147483648", "n"), statusUsage, "--delta"},
		"long note":    {steps(walker, "2026-01-02", "1", strings.Repeat("n", 1001)), statusUsage, "--note: must"},
		"bad note":     {steps(walker, "2026-01-02", "1", "caf\xe9"), statusUsage, "argument 9 is not UTF-8"},
		"no note":      {steps(walker, "2026-01-02", "1", "n")[:8-1], statusUsage, "--note"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, env(db), tt.status, []string{tt.says}, tt.args...)
		})
	}
}
