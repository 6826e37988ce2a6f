package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// outcome is a line of isolation.json. Times are in milliseconds, where they do not say otherwise.
type outcome struct {
	Case         string  `json:"case"`
	OthersP50    float64 `json:"others_p50_ms"`
	OthersP99    float64 `json:"others_p99_ms"`
	QuietP50     float64 `json:"quiet_p50_ms"`
	QuietP99     float64 `json:"quiet_p99_ms"`
	OthersErrors int     `json:"others_errors"`
	ReferenceP99 float64 `json:"reference_p99_ms"`

	// What OthersP99 may be at most, and the bounds that do not hold.
	Bound  float64  `json:"bound_p99_ms"`
	Broken []string `json:"broken"`

	partnerA int

	Others         int      `json:"others_requests"` // beside the trouble
	OthersStatuses statuses `json:"others_statuses"`
	Connections    int      `json:"connections"` // of the trouble
	Statuses       statuses `json:"statuses,omitempty"`
	Seconds        float64  `json:"seconds,omitempty"`
	*aborted
}

// aborted is what the aborts have in addition.
type aborted struct {
	NewConnections int      `json:"new_connections"`    // to PostgreSQL, of the service
	LeasesLeft     int      `json:"leases_left"`        // that hold partner A's reads back a second after
	Reads          statuses `json:"statuses_of_reads"`  // as many at once as partner A may have
	Pool           int      `json:"connections_before"` // of the service to PostgreSQL
	Opened         int64    `json:"streams_opened"`
	Answered       int64    `json:"streams_answered"`     // before they were reset
	Refused        int64    `json:"streams_refused"`      // reset by the server
	Reconnected    int64    `json:"connections_replaced"` // the server said GOAWAY, or closed them
	LoadShare      float64  `json:"load_generator_share"` // of the machine, that opening and resetting took
}

// statuses is how often each HTTP status came; requests without a response are "none".
type statuses map[string]int

func named(counts map[int]int) statuses {
	names := statuses{}
	for status, n := range counts {
		name := strconv.Itoa(status)
		if status == 0 {
			name = "none"
		}
		names[name] = n
	}
	return names
}

const maxNewConnections = 5

// judge takes the three measurements of the others, and holds them against the bounds.
func (o *outcome) judge(c isolationCase, quiet, beside, reference Sample) {
	o.OthersP50, o.OthersP99 = beside.figures().P50, beside.figures().P99
	o.QuietP50, o.QuietP99 = quiet.figures().P50, quiet.figures().P99
	o.ReferenceP99 = reference.figures().P99
	o.Others, o.OthersStatuses = len(beside.Latencies), named(beside.Statuses)
	o.OthersErrors = o.Others - beside.Statuses[http.StatusOK]
	o.Bound = max(1.5*o.ReferenceP99, 3*o.QuietP99)
	if c.times > 0 {
		o.Bound = c.times * o.QuietP99
	}
	o.Broken = []string{}
	check := func(holds bool, format string, args ...any) {
		if !holds {
			o.Broken = append(o.Broken, fmt.Sprintf(format, args...))
		}
	}
	check(o.Others > 0, "others sent nothing")
	check(o.OthersErrors == 0, "others_errors %d of %d, at most 0", o.OthersErrors, o.Others)
	check(o.OthersP99 <= o.Bound, "others_p99_ms %.1f, at most %.1f", o.OthersP99, o.Bound)
	if o.aborted != nil {
		check(o.NewConnections <= maxNewConnections, "new_connections %d, at most %d", o.NewConnections, maxNewConnections)
		check(o.LeasesLeft == 0, "leases_left %d, at most 0", o.LeasesLeft)
	}
}

// reportIsolation writes the file and prints the table. Bounds that are broken are an error.
func reportIsolation(out io.Writer, file string, outcomes []*outcome) error {
	if err := writeJSON(file, outcomes); err != nil {
		return err
	}
	fmt.Fprintln(out)
	table := newTable(out)
	fmt.Fprintln(table, "case\tquiet p50\tp99 ms\treference p99\tothers p50\tp99 ms\tat most\terrors\tof\tconnections\t")
	var broken, notes []string
	for _, o := range outcomes {
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%d\t\n", o.Case, o.QuietP50, o.QuietP99,
			o.ReferenceP99, o.OthersP50, o.OthersP99, o.Bound, o.OthersErrors, o.Others, o.Connections)
		if note := o.note(); note != "" {
			notes = append(notes, o.Case+": "+note)
		}
		for _, b := range o.Broken {
			broken = append(broken, o.Case+": "+b)
		}
	}
	_ = table.Flush() // to a terminal or a pipe
	fmt.Fprintf(out, "\n%s\n\n", strings.Join(notes, "\n"))
	if len(broken) > 0 {
		return fmt.Errorf("bounds are broken:\n%s", strings.Join(broken, "\n"))
	}
	fmt.Fprintln(out, "all bounds hold")
	return nil
}

// note is what the table has no column for.
func (o *outcome) note() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if o.Seconds > 0 {
		add("%.1f s", o.Seconds)
	}
	if o.Statuses != nil {
		add("statuses %v", o.Statuses)
	}
	if o.OthersErrors > 0 {
		add("others' statuses %v", o.OthersStatuses)
	}
	if a := o.aborted; a != nil {
		add("%d new connections beside %d, %d leases left (%v), %d streams opened, %d answered, %d refused, %d times reconnected, with %.0f %% of the machine",
			a.NewConnections, a.Pool, a.LeasesLeft, a.Reads, a.Opened, a.Answered, a.Refused, a.Reconnected, 100*a.LoadShare)
	}
	return strings.Join(parts, "; ")
}
