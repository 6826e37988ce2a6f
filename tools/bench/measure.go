package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// measureCommand measures operations and their limits.
type measureCommand struct {
	settings
	Rounds      int    `default:"3" help:"Rounds, of which the median counts."`
	Connections []int  `default:"1,8,32" help:"Connections at one time."`
	Out         string `default:"bin/bench.json" help:"File for the figures."`
}

// cell is an operation at one number of connections, which is measured in each round.
type cell struct {
	*operation
	connections    int
	rounds, limits []figures
}

// cells are the operations that match, at each number of connections.
func (m *measureCommand) cells() (cells []*cell) {
	for _, connections := range m.Connections {
		for i := range operations {
			if m.Only.MatchString(operations[i].name) {
				cells = append(cells, &cell{operation: &operations[i], connections: connections})
			}
		}
	}
	return cells
}

// Run prints the figures, and writes them to a file.
func (m *measureCommand) Run(ctx context.Context) error {
	s := &stage{settings: m.settings}
	defer s.close()
	if err := s.open(ctx); err != nil {
		return err
	}
	cells := m.cells()
	for round := range m.Rounds {
		if err := s.measureAll(ctx, cells); err != nil {
			return err
		}
		fmt.Printf("round %d of %d done; load of the machine: %s", round+1, m.Rounds, loadAverage())
	}
	entries := make([]entry, len(cells))
	for i, c := range cells {
		entries[i] = c.entry()
	}
	fmt.Printf("\nMedians of %d rounds of %d s on %d cores. Ratios are to the limit.\n\n", m.Rounds, m.Seconds, runtime.NumCPU())
	if err := printEntries(os.Stdout, entries); err != nil {
		return err
	}
	for _, target := range []*service{s.tls, s.redis, s.plain} {
		fmt.Printf("service %s: start to ready, on a migrated database, %d ms; memory at the end %.0f MiB\n", target.name,
			target.startToReady.Milliseconds(), target.peakRSS())
	}
	return writeJSON(m.Out, entries)
}

// measureAll measures each limit, and right after it its operations. A constant response follows its operation, whose size it
// has.
func (s *stage) measureAll(ctx context.Context, cells []*cell) (err error) {
	var bound sample
	for i, c := range cells {
		again := i > 0 && cells[i-1].limit == c.limit && cells[i-1].connections == c.connections
		if !again && !c.limit.constant {
			if bound, err = s.measureLimit(ctx, *c.limit, c.connections); err != nil {
				return fmt.Errorf("limit of %s: %w", c.name, err)
			}
		}
		measured, err := s.measureOperation(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if c.limit.constant {
			if bound, err = s.measureConstant(!c.plain, int(measured.BodySize), c.connections); err != nil {
				return err
			}
		}
		c.rounds, c.limits = append(c.rounds, measured), append(c.limits, bound.figures())
	}
	return nil
}

// measureOperation sends a load to a service, and measures both.
func (s *stage) measureOperation(ctx context.Context, c *cell) (measured figures, err error) {
	work, err := c.load(ctx, s, c.connections)
	if err != nil {
		return measured, err
	}
	target := c.service(s)
	callers, err := work.connect(target.endpoint)
	if err != nil {
		return measured, err
	}
	defer callers.close()
	runtime.GC() // what was prepared is not collected during the measurement
	target.forgetPeak()
	var profile errgroup.Group
	if s.Profiles != "" {
		profile.Go(func() error { return s.profile(ctx, target, c) })
	}
	before, err := target.spent(ctx)
	if err != nil {
		return measured, err
	}
	sample, err := callers.run(s.duration())
	if err != nil {
		return measured, err
	}
	after, err := target.spent(ctx)
	if err != nil {
		return measured, err
	}
	n := float64(len(sample.Latencies))
	measured = sample.figures()
	measured.CPU = (after.cpu - before.cpu) / n
	measured.Allocations = (after.allocations - before.allocations) / n
	measured.PeakRSS = target.peakRSS()
	return measured, profile.Wait()
}

// profile takes a CPU profile of a service while it works.
func (s *stage) profile(ctx context.Context, target *service, c *cell) error {
	taken, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", target.profiles, s.Seconds))
	if err != nil {
		return fmt.Errorf("profile (was the program built with -tags profile?): %w", err)
	}
	if err := os.MkdirAll(s.Profiles, 0o755); err != nil {
		return err
	}
	file := filepath.Join(s.Profiles, fmt.Sprintf("%s-%s-%d.pprof", c.name, target.name, c.connections))
	return os.WriteFile(file, taken, 0o644) //nolint:gosec // profiles are no secret
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown\n"
	}
	return string(text)
}
