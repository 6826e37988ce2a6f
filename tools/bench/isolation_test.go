package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// isolationCase is a trouble of partner A, or of nobody.
type isolationCase struct {
	name string
	// times is what the others' p99 may be of their quiet one; 0: see judge.
	times float64
	// cause makes the trouble. When all is ready it calls begin, with which the others begin.
	cause func(s *stage, ctx context.Context, begin func(), o *outcome) error
}

var isolationCases = []isolationCase{
	{name: "locked_row", times: 2, cause: (*stage).lockRow},
	{name: "used_code", cause: (*stage).repeatCode},
	{name: "over_budget", cause: (*stage).exceedBudget},
	{name: "aborted_streams", cause: (*stage).resetStreams},
	{name: "import", cause: (*stage).importSteps},
	{name: "burst", cause: (*stage).refreshAll},
}

const (
	otherGrants = 101       // of each case, so that what a case breaks is not missing in the next; odd: see others.send
	partnerA    = firstPair // and the number of the case, which has a partner of its own
	troubleUser = 1000      // the first of the users whose connections are used for it
)

// testIsolation starts two servers, and has a test of each case.
func testIsolation(t *testing.T, s *stage, file string) {
	ctx := s.life
	must(t, s.openDatabase(ctx))
	must(t, s.keepSegments(ctx))
	var err error
	s.tls, err = s.serve(ctx, "isolation", true)
	must(t, err)
	s.second, err = s.serve(ctx, "second", true)
	must(t, err)
	outcomes := outcomes{file: cmp.Or(file, "bin/isolation.json")}
	for n, c := range isolationCases {
		outcomes.of(t, c.name, func() (*outcome, error) { return s.measure(ctx, n, c) })
	}
	must(t, outcomes.write(os.Stdout))
}

// keepSegments sets min_wal_size as docs/operations.md advises for imports, and writes as much, so that there are segments to use again.
func (s *stage) keepSegments(ctx context.Context) error {
	return s.exec(ctx, "alter system set min_wal_size = '1GB'", "select pg_reload_conf()",
		"select pg_logical_emit_message(false, '', repeat('x', 16000000)) from generate_series(1, 50)", "checkpoint")
}

// measure shows that one caller's trouble does not reach others. They are the connections of partner B.
func (s *stage) measure(ctx context.Context, n int, c isolationCase) (*outcome, error) {
	connected, err := s.connectFrom(ctx, n*otherGrants, otherGrants, partnerB)
	if err != nil {
		return nil, err
	}
	o := &outcome{partnerA: partnerA + n, servers: []endpoint{s.tls.endpoint}}
	m := measurements{others: newOthers(s.tls.endpoint, connected), seconds: s.duration()}
	return o, m.take(ctx, o, c.times, func(begin func()) error { return c.cause(s, ctx, begin, o) }, func(begin func()) error {
		_, err := o.flood(load{connections: o.Connections, requests: inTurns(discovery)}, s.duration(), begin)
		return err
	})
}

// measurements of the others, who are refreshed and read at a fixed rate.
type measurements struct {
	others   *others
	visitors *visitors // nil: none
	seconds  time.Duration
	fresh    bool // the trouble comes first, to a server that nobody has asked yet
}

// take measures the others alone, beside the trouble, and beside the reference: as many connections to a constant page of the same
// servers as the trouble uses, which is what the machine's processors alone cost. It judges the outcome.
func (m measurements) take(ctx context.Context, o *outcome, times float64, trouble, reference func(begin func()) error) error {
	alone := func(begin func()) error {
		begin()
		return nil
	}
	var failed error
	during := func(act func(begin func()) error) (of sample) {
		if failed != nil {
			return of
		}
		of, failed = m.others.during(m.seconds, func(begin func()) error {
			return act(func() {
				begin()
				if m.visitors != nil {
					m.visitors.begin(ctx)
				}
			})
		})
		if m.visitors != nil && failed == nil {
			of = m.visitors.end(of)
		}
		return of
	}
	pause := func() { // opens the service's connections to the database, too
		if failed == nil {
			_, failed = m.others.during(settle, alone)
		}
	}
	var beside sample
	if m.fresh {
		beside = during(trouble)
	}
	pause()
	quiet := during(alone)
	if !m.fresh {
		beside = during(trouble)
	}
	pause()
	o.judge(times, quiet, beside, during(reference))
	return failed
}

// outcome is a line of isolation.json. Times are in milliseconds, where they do not say otherwise.
type outcome struct {
	Case         string  `json:"case"`
	OthersP50    float64 `json:"others_p50_ms"`
	OthersP99    float64 `json:"others_p99_ms"`
	QuietP50     float64 `json:"quiet_p50_ms"`
	QuietP99     float64 `json:"quiet_p99_ms"`
	OthersErrors int     `json:"others_errors"`
	ReferenceP99 float64 `json:"reference_p99_ms"`

	// The bound of OthersP99, and the bounds that do not hold.
	Bound  float64  `json:"bound_p99_ms"`
	Broken []string `json:"broken"`

	partnerA int
	servers  []endpoint // which the trouble uses

	Others         int         `json:"others_requests"` // beside the trouble
	OthersStatuses map[int]int `json:"others_statuses"` // how often each came; 0: no response
	Connections    int         `json:"connections"`     // of the trouble
	Statuses       map[int]int `json:"statuses,omitempty"`
	Seconds        float64     `json:"seconds,omitempty"`
}

// flood sends a load from this process to the servers in turns, whatever the responses.
func (o *outcome) flood(l load, duration time.Duration, begin func()) (sample, error) {
	l.anyStatus = true
	return l.run(duration, begin, o.servers...)
}

// judge holds the three measurements of the others against the bounds. times is what their p99 may be of their quiet one; 0: see below.
func (o *outcome) judge(times float64, quiet, beside, reference sample) {
	o.OthersP50, o.OthersP99 = beside.figures().P50, beside.figures().P99
	o.QuietP50, o.QuietP99 = quiet.figures().P50, quiet.figures().P99
	o.ReferenceP99 = reference.figures().P99
	o.Others, o.OthersStatuses = len(beside.Latencies), beside.Statuses
	o.OthersErrors = o.Others - beside.Statuses[http.StatusOK]
	o.Bound = max(1.5*o.ReferenceP99, 3*o.QuietP99)
	if times > 0 {
		o.Bound = times * o.QuietP99
	}
	o.Broken = []string{}
	check := func(holds bool, format string, args ...any) {
		if !holds {
			o.Broken = append(o.Broken, fmt.Sprintf(format, args...))
		}
	}
	check(o.Others > 0, "others sent nothing")
	check(o.OthersErrors == 0, "others_errors %d of %d, at most 0: %v", o.OthersErrors, o.Others, o.OthersStatuses)
	check(o.OthersP99 <= o.Bound, "others_p99_ms %.1f, at most %.1f", o.OthersP99, o.Bound)
}

// outcomes are those of one test, and the file for them.
type outcomes struct {
	file string
	list []*outcome
}

// of has a test of a case, which fails if a bound does not hold.
func (o *outcomes) of(t *testing.T, name string, measure func() (*outcome, error)) {
	t.Run(name, func(t *testing.T) {
		t.Logf("load of the machine: %s", loadAverage())
		measured, err := measure()
		must(t, err) // the next case has a client and users of its own
		measured.Case = name
		o.list = append(o.list, measured)
		for _, bound := range measured.Broken {
			t.Error(bound)
		}
	})
}

// write writes the file and prints the table.
func (o *outcomes) write(out io.Writer) error {
	text, err := json.MarshalIndent(o.list, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.file, append(text, '\n'), 0o644); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\ncase\tquiet p50\tp99 ms\treference p99\tothers p50\tp99 ms\tat most\terrors\tof\tconnections\tseconds\t  statuses")
	for _, o := range o.list {
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%d\t%.1f\t  %v\n", o.Case, o.QuietP50, o.QuietP99,
			o.ReferenceP99, o.OthersP50, o.OthersP99, o.Bound, o.OthersErrors, o.Others, o.Connections, o.Seconds, o.Statuses)
	}
	return table.Flush()
}

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

// The file and the table have every case.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	made := outcomes{filepath.Join(t.TempDir(), "isolation.json"), []*outcome{{Case: "used_code"}, {Case: "import", Broken: []string{"others_errors 3"}}}}
	var table bytes.Buffer
	must(t, made.write(&table))
	text, err := os.ReadFile(made.file)
	must(t, err)
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
