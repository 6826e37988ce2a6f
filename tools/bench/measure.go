package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// cell is an operation at one number of connections, which is measured in each round.
type cell struct {
	operation      *operation
	limit          *limit
	connections    int
	rounds, limits []figures
}

// plan is the cells whose operations match: in each part those that have their limit and number of connections in common.
func plan(only *regexp.Regexp, levels []int) (parts [][]*cell) {
	for g := range groups {
		for _, level := range levels {
			var part []*cell
			for i := range groups[g].operations {
				if operation := &groups[g].operations[i]; only.MatchString(operation.name) {
					part = append(part, &cell{operation: operation, limit: &groups[g].limit, connections: level})
				}
			}
			if len(part) > 0 {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

func measure(ctx context.Context, settings settings) error {
	only, err := regexp.Compile(settings.operations)
	if err != nil {
		return err
	}
	if settings.profiles != "" {
		if err := os.MkdirAll(settings.profiles, 0o755); err != nil {
			return err
		}
	}
	began := time.Now()
	progress := func(format string, args ...any) {
		fmt.Printf("%s after %.0f s; load of the machine: %s", fmt.Sprintf(format, args...), time.Since(began).Seconds(), loadAverage())
	}
	s := &stage{settings: settings}
	defer s.close()
	if err := s.open(ctx); err != nil {
		return err
	}
	progress("ready")
	parts := plan(only, settings.levels)
	for round := range settings.rounds {
		for _, part := range parts {
			if err := s.measurePart(ctx, part); err != nil {
				return err
			}
		}
		progress("round %d of %d done", round+1, settings.rounds)
	}
	notes, err := s.checks(ctx)
	if err != nil {
		return err
	}
	return report(os.Stdout, settings, parts, notes)
}

// measurePart measures a limit, and right after it its operations. A constant response follows its operation, whose size it
// has.
func (s *stage) measurePart(ctx context.Context, part []*cell) error {
	var bound Sample
	var err error
	for i, c := range part {
		if i == 0 && !c.limit.constant {
			if bound, err = s.measureLimit(ctx, *c.limit, c.connections); err != nil {
				return fmt.Errorf("limit of %s: %w", c.operation.name, err)
			}
		}
		measured, err := s.measureOperation(ctx, c.operation, c.connections)
		if err != nil {
			return fmt.Errorf("%s (%s, %s): %w", c.operation.name, c.operation.limiter, c.operation.variant, err)
		}
		if c.limit.constant {
			if bound, err = s.measureConstant(!c.operation.plain, int(measured.BodySize), c.connections); err != nil {
				return err
			}
		}
		c.rounds, c.limits = append(c.rounds, measured), append(c.limits, bound.figures())
	}
	return nil
}

func (s *stage) measureOperation(ctx context.Context, op *operation, connections int) (figures, error) {
	work, err := op.load(ctx, s, connections)
	if err != nil {
		return figures{}, err
	}
	_, measured, err := s.send(ctx, s.service(op.instance()), work, s.duration(), op.name)
	return measured, err
}

// send sends a load to a service, and measures both.
func (s *stage) send(ctx context.Context, target *service, work load, duration time.Duration, name string) (Sample, figures, error) {
	work.endpoint = target.endpoint
	callers, err := work.connect()
	if err != nil {
		return Sample{}, figures{}, err
	}
	defer callers.close()
	runtime.GC() // what was prepared is not collected during the measurement
	target.forgetPeak()
	var profile errgroup.Group
	if s.settings.profiles != "" {
		profile.Go(func() error { return s.profile(ctx, target, work.connections, duration, name) })
	}
	before, err := target.spent(ctx)
	if err != nil {
		return Sample{}, figures{}, err
	}
	sample, err := callers.run(duration)
	if err != nil {
		return sample, figures{}, err
	}
	after, err := target.spent(ctx)
	if err != nil {
		return sample, figures{}, err
	}
	measured, n := sample.figures(), float64(len(sample.Latencies))
	measured.CPU = milliseconds(after.cpu-before.cpu) / n
	measured.Allocations = (after.allocations - before.allocations) / n
	measured.PeakRSS = target.peakMemory()
	return sample, measured, profile.Wait()
}

// profile takes a CPU profile of a service while it works.
func (s *stage) profile(ctx context.Context, target *service, connections int, duration time.Duration, name string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", target.profiles, max(1, int(duration.Seconds())))
	taken, err := get(ctx, url)
	if err != nil {
		return fmt.Errorf("profile (was the program built with -tags profile?): %w", err)
	}
	file := filepath.Join(s.settings.profiles, fmt.Sprintf("%s-%s-%d.pprof", name, target.name, connections))
	return os.WriteFile(file, taken, 0o644) //nolint:gosec // profiles are no secret
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown\n"
	}
	return string(text)
}
