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
	Operation   string  `json:"operation"`
	Connections int     `json:"connections"`
	Limiter     string  `json:"limiter"`
	Rate        float64 `json:"rate"`
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	Limit       string  `json:"limit"`
	LimitRate   float64 `json:"limit_rate"`
	LimitP99    float64 `json:"limit_p99_ms"`
	CPU         float64 `json:"cpu_ms_per_request"`
	Allocations float64 `json:"allocs_per_request"`
	PeakRSS     float64 `json:"peak_rss_mib"`
}

// detail is an entry of the file that has all of them.
type detail struct {
	entry
	Variant   string  `json:"variant"`
	LimitP50  float64 `json:"limit_p50_ms"`
	LoadShare float64 `json:"load_generator_share"`
	BodySize  int     `json:"body_bytes"`
}

func median(list []figures, of func(figures) float64) float64 {
	values := make([]float64, len(list))
	for i, f := range list {
		values[i] = of(f)
	}
	slices.Sort(values)
	middle := values[len(values)/2]
	if len(values)%2 == 0 {
		middle = (middle + values[len(values)/2-1]) / 2
	}
	return middle
}

func (c *cell) detail() detail {
	rate := func(f figures) float64 { return f.Rate }
	p50, p99 := func(f figures) float64 { return f.P50 }, func(f figures) float64 { return f.P99 }
	return detail{
		entry: entry{
			Operation: c.operation.name, Connections: c.connections, Limiter: c.operation.limiter,
			Rate: median(c.rounds, rate), P50: median(c.rounds, p50), P99: median(c.rounds, p99),
			Limit: c.limit.name, LimitRate: median(c.limits, rate), LimitP99: median(c.limits, p99),
			CPU:         median(c.rounds, func(f figures) float64 { return f.CPU }),
			Allocations: median(c.rounds, func(f figures) float64 { return f.Allocations }),
			PeakRSS:     median(c.rounds, func(f figures) float64 { return f.PeakRSS }),
		},
		Variant:   c.operation.variant,
		LimitP50:  median(c.limits, p50),
		LoadShare: median(c.rounds, func(f figures) float64 { return f.LoadShare }),
		BodySize:  int(median(c.rounds, func(f figures) float64 { return float64(f.BodySize) })),
	}
}

// report prints the table and writes the two files.
func report(out io.Writer, s settings, cells []*cell, notes []string) error {
	details, entries := []detail{}, []entry{}
	for _, c := range cells {
		d := c.detail()
		details = append(details, d)
		if d.Variant == "" {
			entries = append(entries, d.entry)
		}
	}
	slices.SortStableFunc(details, func(a, b detail) int { return cmp.Compare(a.Connections, b.Connections) })
	printTable(out, s, details)
	for _, note := range notes {
		fmt.Fprintln(out, note)
	}
	if err := writeJSON(s.out, entries); err != nil {
		return err
	}
	all := strings.TrimSuffix(s.out, ".json") + "-details.json"
	return writeJSON(all, map[string]any{"seconds": s.seconds, "rounds": s.rounds, "cores": runtime.NumCPU(),
		"steps_rows": s.stepsRows, "measurements": details, "notes": notes})
}

func printTable(out io.Writer, s settings, details []detail) {
	fmt.Fprintf(out, "\nMedians of %d rounds of %d s on %d cores. Ratios are to the limit, which is below the table.\n\n",
		s.rounds, s.seconds, runtime.NumCPU())
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "operation\tconnections\tlimiter\trate/s\tp50 ms\tp99 ms\tlimit/s\tlimit p99\trate ratio\tp99 ratio\tCPU ms\tallocs\tpeak MiB\tload gen. %\t")
	var limits []string
	for _, d := range details {
		name := d.Operation
		if d.Variant != "" {
			name += ", " + d.Variant
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%.0f\t%.3f\t%.3f\t%.0f\t%.3f\t%.2f\t%.2f\t%.3f\t%.0f\t%.1f\t%.0f\t\n",
			name, d.Connections, d.Limiter, d.Rate, d.P50, d.P99, d.LimitRate, d.LimitP99, d.Rate/d.LimitRate,
			d.P99/d.LimitP99, d.CPU, d.Allocations, d.PeakRSS, 100*d.LoadShare)
		if line := "limit of " + name + ": " + d.Limit; d.Limiter != "redis" && d.Variant != "one client" && !slices.Contains(limits, line) {
			limits = append(limits, line)
		}
	}
	_ = table.Flush() // to a terminal or a pipe
	fmt.Fprintf(out, "\n%s\n\n", strings.Join(limits, "\n"))
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
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "operation\tconnections\tlimiter\trate/s\t\trate ratio\t\tp99 ratio\t\tCPU ms\t\tallocs\t\tpeak MiB\t\t")
	change := func(format string, from, to float64) string {
		return fmt.Sprintf(format+" → "+format, from, to) + fmt.Sprintf("\t%+.0f%%", 100*(to-from)/from)
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

func readEntries(file string) ([]entry, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	var entries []entry
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return entries, nil
}
