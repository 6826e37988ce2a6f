package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// othersOf is a sample whose latencies are all the same.
func othersOf(latency time.Duration, statuses map[int]int) sample {
	s := sample{Elapsed: time.Second, Statuses: statuses}
	for _, n := range statuses {
		s.Latencies = append(s.Latencies, slices.Repeat([]time.Duration{latency}, n)...)
	}
	return s
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	good := map[int]int{200: 240}
	for name, test := range map[string]struct {
		times                    float64
		quiet, beside, reference time.Duration
		statuses                 map[int]int
		want                     []string
	}{
		"within the quiet bound":       {quiet: 10 * ms, reference: 1 * ms, beside: 30 * ms, statuses: good},
		"within the reference's":       {quiet: 10 * ms, reference: 30 * ms, beside: 45 * ms, statuses: good},
		"above both":                   {quiet: 10 * ms, reference: 30 * ms, beside: 46 * ms, statuses: good, want: []string{"others_p99_ms"}},
		"a row has a bound of its own": {times: 2, quiet: 10 * ms, reference: 30 * ms, beside: 21 * ms, statuses: good, want: []string{"others_p99_ms"}},
		"an error":                     {quiet: 10 * ms, beside: 10 * ms, statuses: map[int]int{200: 239, 503: 1}, want: []string{"others_errors"}},
		"no answer":                    {quiet: 10 * ms, beside: 10 * ms, statuses: map[int]int{200: 239, 0: 1}, want: []string{"others_errors"}},
		"nothing was sent":             {quiet: 10 * ms, want: []string{"others sent"}},
	} {
		o := outcome{}
		o.judge(test.times, othersOf(test.quiet, good), othersOf(test.beside, test.statuses), othersOf(test.reference, good))
		if !slices.EqualFunc(o.Broken, test.want, strings.HasPrefix) {
			t.Errorf("%s: broken %q, want %q", name, o.Broken, test.want)
		}
	}
}

// The file is written, whatever it says, and what is broken is the error.
func TestReportIsolation(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "isolation.json")
	var table bytes.Buffer
	outcomes := []*outcome{{Case: "used_code"}, {Case: "import", Broken: []string{"others_errors 3"}}}
	if err := reportIsolation(&table, file, outcomes); err == nil || !strings.Contains(err.Error(), "import: others_errors 3") {
		t.Errorf("error %v", err)
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	var written []map[string]any
	if err := json.Unmarshal(text, &written); err != nil || len(written) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, key := range []string{"case", "others_p50_ms", "others_p99_ms", "quiet_p50_ms", "quiet_p99_ms", "others_errors", "reference_p99_ms"} {
		if _, found := written[0][key]; !found {
			t.Errorf("no %s in %s", key, text)
		}
	}
	if !strings.Contains(table.String(), "used_code") {
		t.Error("the table lacks a case")
	}
}

// An import takes no two rows of one user and day.
func TestWriteSteps(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "steps.csv")
	if err := writeSteps(file, users-10, 25); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	seen := map[string]bool{}
	for _, line := range lines {
		seen[line[:strings.LastIndex(line, ",")]] = true
	}
	if lines[0] != "user_id,date,steps" || len(lines) != 26 || len(seen) != 26 {
		t.Errorf("%d lines, %d of them different: %q", len(lines), len(seen), lines[0])
	}
}
