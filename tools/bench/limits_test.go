package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The limits measure the statements that the service sends, with each of their arguments.
func TestLimitsAreStatementsOfTheService(t *testing.T) {
	t.Parallel()
	found, err := readStatements("../../sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range operations {
		script, err := o.limit.script(found)
		if err != nil {
			t.Errorf("%s: %v", o.limit.name, err)
		}
		if strings.Contains(script, "@") || strings.Contains(script, "sqlc.") || strings.Contains(script, "-- ") {
			t.Errorf("%s: an argument or a comment is left:\n%s", o.limit.name, script)
		}
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	found := map[string]string{"Get": "select @version::bigint, @max_rows;", "Put": "select @version, @verse;"}
	script, err := limit{statements: []string{"Get"}, args: map[string]string{"max_rows": ":x"}}.script(found)
	if want := "select (1)::bigint, (:x);\n"; err != nil || !strings.HasSuffix(script, want) {
		t.Errorf("got %q, %v, want %q at its end", script, err, want)
	}
	for _, name := range []string{"Put", "Post"} {
		if _, err := (limit{statements: []string{name}}).script(found); err == nil {
			t.Errorf("%s: an argument without a value or no such statement, and no error", name)
		}
	}
}

// Two clients have five rows to do something with: k = 0, 2, 4 and k = 1, 3. Each transaction takes 2 ms, and what comes
// after the work waits for a second.
func TestPgbenchLogsEndWithTheWork(t *testing.T) {
	t.Parallel()
	logs := make([]string, 2)
	for client := range logs {
		var lines strings.Builder
		for count := 1; count <= 6; count++ {
			latency, ended := 2000, 2000*count
			if client+(count-1)*2 >= 5 {
				latency, ended = 1_000_000, 1_000_000*count
			}
			fmt.Fprintf(&lines, "%d %d %d 0 %d %d\n", client, count, latency, 1000+ended/1_000_000, ended%1_000_000)
		}
		logs[client] = filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(logs[client], []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The first of each client prepares the statements: k = 2, 4 and 3 are left, in the 4 ms from 2 ms to 6 ms.
	got, err := readPgbenchLogs(logs, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	if want := (figures{Rate: 750, P50: 2, P99: 2}); got.figures() != want {
		t.Errorf("got %+v, want %+v", got.figures(), want)
	}
	if got, err := readPgbenchLogs(logs, 2, 0); err != nil || len(got.Latencies) != 10 {
		t.Errorf("without an end: %+v, %v, want 10 transactions", got, err)
	}
	if got, err := readPgbenchLogs(logs, 2, 2); err != nil || got.figures().Rate != 0 {
		t.Errorf("nothing was done but the first of each: %+v, %v", got.figures(), err)
	}
}
