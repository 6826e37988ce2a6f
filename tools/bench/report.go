package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

// entry is a line of bench.json: medians of all rounds.
type entry struct {
	Operation   string `json:"operation"`
	Connections int    `json:"connections"`
	Limiter     string `json:"limiter"`
	figures
	Limit     string  `json:"limit"`
	LimitRate float64 `json:"limit_rate"`
	LimitP50  float64 `json:"limit_p50_ms"`
	LimitP99  float64 `json:"limit_p99_ms"`
}

func (c *cell) entry() entry {
	bound := median(c.limits)
	return entry{
		Operation: c.name, Connections: c.connections, Limiter: c.limiter, figures: median(c.rounds),
		Limit: c.limit.name, LimitRate: bound.Rate, LimitP50: bound.P50, LimitP99: bound.P99,
	}
}

// columns of the tables.
var columns = []struct {
	name, format string
	value        func(entry) float64
	compared     bool
}{
	{"rate/s", "%.0f", func(e entry) float64 { return e.Rate }, true},
	{"p50 ms", "%.3f", func(e entry) float64 { return e.P50 }, false},
	{"p99 ms", "%.3f", func(e entry) float64 { return e.P99 }, false},
	{"limit/s", "%.0f", func(e entry) float64 { return e.LimitRate }, false},
	{"limit p99", "%.3f", func(e entry) float64 { return e.LimitP99 }, false},
	{"rate ratio", "%.2f", func(e entry) float64 { return e.Rate / e.LimitRate }, true},
	{"p99 ratio", "%.2f", func(e entry) float64 { return e.P99 / e.LimitP99 }, true},
	{"CPU ms", "%.3f", func(e entry) float64 { return e.CPU }, true},
	{"allocs", "%.0f", func(e entry) float64 { return e.Allocations }, true},
	{"peak MiB", "%.1f", func(e entry) float64 { return e.PeakRSS }, true},
	{"load gen. %", "%.0f", func(e entry) float64 { return 100 * e.LoadShare }, false},
}

func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
}

func printEntries(out io.Writer, entries []entry) error {
	table := newTable(out)
	fmt.Fprint(table, "operation\tconnections\tlimiter\t")
	for _, column := range columns {
		fmt.Fprint(table, column.name, "\t")
	}
	fmt.Fprintln(table, "  limit")
	for _, e := range entries {
		fmt.Fprintf(table, "%s\t%d\t%s\t", e.Operation, e.Connections, e.Limiter)
		for _, column := range columns {
			fmt.Fprintf(table, column.format+"\t", column.value(e))
		}
		fmt.Fprintln(table, "  "+e.Limit)
	}
	return table.Flush()
}

// compareCommand prints what has changed between two files, by ratios to the limits: two runs see different machines.
type compareCommand struct {
	Old, New string `arg:"" help:"File of a run."`
}

// Run prints the comparison.
func (c *compareCommand) Run() error {
	before, err := readEntries(c.Old)
	if err != nil {
		return err
	}
	after, err := readEntries(c.New)
	if err != nil {
		return err
	}
	return compare(os.Stdout, before, after)
}

func compare(out io.Writer, before, after []entry) error {
	table := newTable(out)
	fmt.Fprint(table, "operation\tconnections\tlimiter\t")
	for _, column := range columns {
		if column.compared {
			fmt.Fprint(table, column.name, "\t\t")
		}
	}
	fmt.Fprintln(table)
	for _, now := range after {
		i := slices.IndexFunc(before, func(e entry) bool {
			return e.Operation == now.Operation && e.Connections == now.Connections && e.Limiter == now.Limiter
		})
		if i < 0 {
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t", now.Operation, now.Connections, now.Limiter)
		for _, column := range columns {
			if from, to := column.value(before[i]), column.value(now); column.compared {
				fmt.Fprintf(table, column.format+" → "+column.format+"\t%+.0f%%\t", from, to, 100*(to-from)/from)
			}
		}
		fmt.Fprintln(table)
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
