package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// entry is a line of bench.json: medians of all rounds.
type entry struct {
	Operation   string `json:"operation"`
	Variant     string `json:"variant"`
	Connections int    `json:"connections"`
	Limiter     string `json:"limiter"`
	figures
	Limit     string  `json:"limit"`
	LimitRate float64 `json:"limit_rate"`
	LimitP50  float64 `json:"limit_p50_ms"`
	LimitP99  float64 `json:"limit_p99_ms"`
}

func (c *cell) entry() entry {
	limit := median(c.limits)
	return entry{
		Operation: c.operation.name, Variant: c.operation.variant, Connections: c.connections, Limiter: c.operation.limiter,
		figures: median(c.rounds),
		Limit:   c.limit.name, LimitRate: limit.Rate, LimitP50: limit.P50, LimitP99: limit.P99,
	}
}

// report prints the table and writes two files: one with the entries without a variant, and one with all.
func report(out io.Writer, s settings, parts [][]*cell, notes []string) error {
	entries := []entry{}
	for _, c := range slices.Concat(parts...) {
		entries = append(entries, c.entry())
	}
	details := slices.Clone(entries)
	slices.SortStableFunc(details, func(a, b entry) int { return cmp.Compare(a.Connections, b.Connections) })
	printTable(out, s, details)
	for _, note := range notes {
		fmt.Fprintln(out, note)
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.Variant != "" })
	if err := writeJSON(s.out, entries); err != nil {
		return err
	}
	return writeJSON(strings.TrimSuffix(s.out, ".json")+"-details.json", map[string]any{"seconds": s.seconds, "rounds": s.rounds,
		"cores": runtime.NumCPU(), "steps_rows": s.stepsRows, "measurements": details, "notes": notes})
}

func printTable(out io.Writer, s settings, entries []entry) {
	fmt.Fprintf(out, "\nMedians of %d rounds of %d s on %d cores. Ratios are to the limit, which is below the table.\n\n",
		s.rounds, s.seconds, runtime.NumCPU())
	table := newTable(out)
	fmt.Fprintln(table, "operation\tconnections\tlimiter\trate/s\tp50 ms\tp99 ms\tlimit/s\tlimit p99\trate ratio\tp99 ratio\tCPU ms\tallocs\tpeak MiB\tload gen. %\t")
	var limits []string
	for _, e := range entries {
		name := e.Operation
		if e.Variant != "" {
			name += ", " + e.Variant
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%.0f\t%.3f\t%.3f\t%.0f\t%.3f\t%.2f\t%.2f\t%.3f\t%.0f\t%.1f\t%.0f\t\n",
			name, e.Connections, e.Limiter, e.Rate, e.P50, e.P99, e.LimitRate, e.LimitP99, e.Rate/e.LimitRate,
			e.P99/e.LimitP99, e.CPU, e.Allocations, e.PeakRSS, 100*e.LoadShare)
		if line := "limit of " + name + ": " + e.Limit; e.Limiter != "redis" && e.Variant != oneClientVariant && !slices.Contains(limits, line) {
			limits = append(limits, line)
		}
	}
	_ = table.Flush() // to a terminal or a pipe
	fmt.Fprintf(out, "\n%s\n\n", strings.Join(limits, "\n"))
}

func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // figures are no secret
}

// compare prints what has changed between two files, by ratios to the limits: two runs see different machines.
func compare(out io.Writer, oldFile, newFile string) error {
	before, err := readEntries(oldFile)
	if err != nil {
		return err
	}
	after, err := readEntries(newFile)
	if err != nil {
		return err
	}
	table := newTable(out)
	fmt.Fprintln(table, "operation\tconnections\tlimiter\trate/s\t\trate ratio\t\tp99 ratio\t\tCPU ms\t\tallocs\t\tpeak MiB\t\t")
	change := func(format string, from, to float64) string {
		return fmt.Sprintf(format+" → "+format+"\t%+.0f%%", from, to, 100*(to-from)/from)
	}
	for _, now := range after {
		i := slices.IndexFunc(before, func(e entry) bool {
			return e.Operation == now.Operation && e.Connections == now.Connections && e.Limiter == now.Limiter
		})
		if i < 0 {
			continue
		}
		then := before[i]
		fmt.Fprintln(table, strings.Join([]string{
			now.Operation, fmt.Sprint(now.Connections), now.Limiter,
			change("%.0f", then.Rate, now.Rate), change("%.2f", then.Rate/then.LimitRate, now.Rate/now.LimitRate),
			change("%.2f", then.P99/then.LimitP99, now.P99/now.LimitP99), change("%.3f", then.CPU, now.CPU),
			change("%.0f", then.Allocations, now.Allocations), change("%.1f", then.PeakRSS, now.PeakRSS), "",
		}, "\t"))
	}
	return table.Flush()
}

func readEntries(file string) (entries []entry, err error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return entries, nil
}
