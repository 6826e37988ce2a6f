package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// figures of one measurement. Times are in milliseconds.
type figures struct {
	Rate, P50, P99 float64
	// Of the service, for each request, and its peak of memory in MiB.
	CPU, Allocations, PeakRSS float64
	LoadShare                 float64 // of the machine, that the load generator took
	Count                     int
	BodySize                  int
}

// cell is what is measured again in each round.
type cell struct {
	operation   *operation
	limit       *limit
	connections int
	rounds      []figures
	limits      []figures
}

func measure(ctx context.Context, s settings) error {
	only, err := regexp.Compile(s.operations)
	if err != nil {
		return err
	}
	if s.profiles != "" {
		if err := os.MkdirAll(s.profiles, 0o755); err != nil {
			return err
		}
	}
	began := time.Now()
	st := &stage{settings: s, constants: map[int]constant{}}
	defer st.close()
	if err := st.open(ctx); err != nil {
		return err
	}
	fmt.Printf("ready after %.0f s; load of the machine: %s", time.Since(began).Seconds(), loadAverage())
	var cells []*cell
	for round := range s.rounds {
		i := 0
		for g := range groups {
			for _, level := range s.levels {
				more, err := st.measureGroup(ctx, &groups[g], level, only, round, cells[min(i, len(cells)):])
				if err != nil {
					return err
				}
				if round == 0 {
					cells = append(cells, more...)
				}
				i += len(more)
			}
		}
		fmt.Printf("round %d of %d done after %.0f s; load of the machine: %s", round+1, s.rounds, time.Since(began).Seconds(), loadAverage())
	}
	notes, err := st.checks(ctx)
	if err != nil {
		return err
	}
	return report(os.Stdout, s, cells, notes)
}

// measureGroup measures a limit and its operations, at one number of connections. cells are those of earlier rounds.
func (s *stage) measureGroup(
	ctx context.Context, g *group, connections int, only *regexp.Regexp, round int, cells []*cell,
) ([]*cell, error) {
	var wanted []*operation
	for i := range g.operations {
		if only.MatchString(g.operations[i].name) {
			wanted = append(wanted, &g.operations[i])
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	if round == 0 {
		cells = nil
		for _, op := range wanted {
			cells = append(cells, &cell{operation: op, limit: &g.limit, connections: connections})
		}
	}
	cells = cells[:len(wanted)]
	var bound figures
	var err error
	if !g.limit.constant {
		if bound, err = s.measureLimit(ctx, g.limit, connections); err != nil {
			return nil, fmt.Errorf("limit of %s: %w", wanted[0].name, err)
		}
	}
	for i, op := range wanted {
		measured, err := s.measureOperation(ctx, op, connections)
		if err != nil {
			return nil, fmt.Errorf("%s (%s, %s): %w", op.name, op.limiter, op.variant, err)
		}
		if g.limit.constant {
			if bound, err = s.measureConstant(ctx, g.limit, measured.BodySize, connections); err != nil {
				return nil, err
			}
		}
		cells[i].rounds = append(cells[i].rounds, measured)
		cells[i].limits = append(cells[i].limits, bound)
	}
	return cells, nil
}

func (s *stage) measureLimit(ctx context.Context, l limit, connections int) (figures, error) {
	script, err := l.script(s.statements)
	if err != nil {
		return figures{}, err
	}
	var measured figures
	for range 3 {
		if l.reset != "" {
			if _, err := s.conn.Exec(ctx, l.reset); err != nil {
				return figures{}, err
			}
		}
		if measured, err = s.pgbench(ctx, script, connections, l.work); !errors.Is(err, errIdle) {
			break
		}
	}
	if err != nil || l.effect == "" {
		return measured, err
	}
	var done int
	if err := s.conn.QueryRow(ctx, "select ("+l.effect+")::int").Scan(&done); err != nil {
		return figures{}, err
	}
	if done < measured.Count {
		return figures{}, fmt.Errorf("%d transactions did something %d times", measured.Count, done)
	}
	return measured, nil
}

func (s *stage) measureConstant(ctx context.Context, l limit, size, connections int) (figures, error) {
	c, err := s.constant(size)
	if err != nil {
		return figures{}, err
	}
	work := load{
		Address: c.TLSAddr, Roots: s.certificate, Connections: connections, Duration: s.duration(), Warmup: warmUp,
		Requests: []string{getRequest("/.well-known/oauth-authorization-server", "")}, WantStatus: 200,
	}
	if l.plain {
		work.Address, work.Roots = c.PlainTCP, nil
	}
	generator, err := prepareLoad(ctx, work)
	if err != nil {
		return figures{}, err
	}
	result, err := generator.run()
	if err != nil {
		return figures{}, err
	}
	return result.figures(), generator.close()
}

func (s *stage) duration() time.Duration { return time.Duration(s.settings.seconds) * time.Second }

func (s *stage) measureOperation(ctx context.Context, op *operation, connections int) (figures, error) {
	work, err := op.load(ctx, s, connections)
	if err != nil {
		return figures{}, err
	}
	measured, _, err := s.send(ctx, op.service(s), work, op.name)
	return measured, err
}

// send lets a load generator send to a service, and measures both.
func (s *stage) send(ctx context.Context, target *service, work load, name string) (figures, loadResult, error) {
	work.Address = target.address
	if target.secure {
		work.Roots = s.certificate
	}
	if work.Duration == 0 {
		work.Duration = s.duration()
	}
	generator, err := prepareLoad(ctx, work)
	if err != nil {
		return figures{}, loadResult{}, err
	}
	target.forgetPeak()
	profiled := s.profile(ctx, target, work, name)
	before, err := target.spent(ctx)
	if err != nil {
		return figures{}, loadResult{}, err
	}
	result, err := generator.run()
	if err != nil {
		return figures{}, result, err
	}
	if result.Error != "" {
		return figures{}, result, fmt.Errorf("%s", result.Error)
	}
	after, err := target.spent(ctx)
	if err != nil {
		return figures{}, result, err
	}
	if err := generator.close(); err != nil {
		return figures{}, result, err
	}
	if err := profiled(); err != nil {
		return figures{}, result, err
	}
	measured := result.figures()
	measured.CPU = milliseconds(after.cpu-before.cpu) / float64(result.Count)
	measured.Allocations = (after.allocations - before.allocations) / float64(result.Count)
	measured.PeakRSS = target.peakMemory()
	return measured, result, nil
}

func (r loadResult) figures() figures {
	return figures{
		Count: r.Count, Rate: float64(r.Count) / r.Elapsed.Seconds(), P50: milliseconds(r.P50), P99: milliseconds(r.P99),
		LoadShare: float64(r.CPU) / float64(r.Elapsed) / float64(runtime.NumCPU()), BodySize: r.BodySize,
	}
}

func loadAverage() string {
	text, err := os.ReadFile(filepath.Clean("/proc/loadavg"))
	if err != nil {
		return "unknown\n"
	}
	return string(text)
}
