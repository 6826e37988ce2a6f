package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two workers have five rows to do something with: k = 0, 2, 4 and k = 1, 3. Each transaction takes 2 ms, and what comes
// after the work waits for a second.
func TestPgbenchLogsEndWithTheWork(t *testing.T) {
	t.Parallel()
	logs := make([]string, 2)
	for worker := range logs {
		var lines strings.Builder
		for count := 1; count <= 6; count++ {
			latency, ended := 2000, 2000*count
			if worker+(count-1)*2 >= 5 {
				latency, ended = 1_000_000, 1_000_000*count
			}
			fmt.Fprintf(&lines, "%d %d %d 0 %d %d\n", worker, count, latency, 1000+ended/1_000_000, ended%1_000_000)
		}
		logs[worker] = filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(logs[worker], []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The first of each worker prepares the statements: k = 2, 4 and 3 are left, in the 4 ms from 2 ms to 6 ms.
	got, err := readPgbenchLogs(logs, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	if want := (figures{Count: 3, Rate: 750, P50: 2, P99: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, err := readPgbenchLogs(logs, 2, 0); err != nil || got.Count != 10 {
		t.Errorf("without an end: %+v, %v, want 10 transactions", got, err)
	}
	if _, err := readPgbenchLogs(logs, 2, 2); !errors.Is(err, errIdle) {
		t.Errorf("nothing was done but the first of each: %v, want errIdle", err)
	}
}

func TestScriptsWithAnEndSayWhereItIs(t *testing.T) {
	t.Parallel()
	found, err := readStatements("../../sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if g.limit.work == 0 {
			continue
		}
		script, err := g.limit.script(found)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("\\if :k < %d\n", g.limit.work); !strings.Contains(script, want) {
			t.Errorf("%s: the script does not end after %d transactions:\n%s", g.limit.name, g.limit.work, script)
		}
	}
}
