package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
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

// reportIsolation writes the file and prints the table. Bounds that are broken are an error.
func reportIsolation(out io.Writer, file string, outcomes []*outcome) error {
	text, err := json.MarshalIndent(outcomes, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures are no secret
		return err
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "case\tquiet p50\tp99 ms\treference p99\tothers p50\tp99 ms\tat most\terrors\tof\tconnections\tseconds\t  statuses")
	var broken []string
	for _, o := range outcomes {
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%d\t%.1f\t  %v\n", o.Case, o.QuietP50, o.QuietP99,
			o.ReferenceP99, o.OthersP50, o.OthersP99, o.Bound, o.OthersErrors, o.Others, o.Connections, o.Seconds, o.Statuses)
		for _, b := range o.Broken {
			broken = append(broken, o.Case+": "+b)
		}
	}
	_ = table.Flush() // to a terminal or a pipe
	if len(broken) > 0 {
		return fmt.Errorf("bounds are broken:\n%s", strings.Join(broken, "\n"))
	}
	fmt.Fprintln(out, "all bounds hold")
	return nil
}
