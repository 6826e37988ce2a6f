package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

type measureCommand struct {
	settings
	Rounds      int    `default:"3" help:"Rounds, of which the median counts."`
	Connections []int  `default:"1,8,32" help:"Connections at one time."`
	Out         string `default:"bin/bench.txt" help:"File for the figures."`
}

// Run prints a line for each measurement, in the format of Go's benchmarks, and writes them to a file, too.
func (m *measureCommand) Run(ctx context.Context) error {
	s := newStage(m.settings)
	defer s.close()
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.Out), 0o755); err != nil {
		return err
	}
	file, err := os.Create(m.Out)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // closed below, but for an error that is returned
	for round := range m.Rounds {
		fmt.Printf("round %d of %d; load of the machine: %s", round+1, m.Rounds, loadAverage())
		for _, connections := range m.Connections {
			if err := m.measureAll(ctx, s, connections, io.MultiWriter(os.Stdout, file)); err != nil {
				return err
			}
		}
	}
	for _, target := range []*service{s.tls, s.redis, s.plain} {
		fmt.Printf("service %s: start to ready, on a migrated database, %d ms; memory at the end %.0f MiB\n", target.name,
			target.startToReady.Milliseconds(), target.peakRSS())
	}
	return file.Close()
}

// measureAll measures each limit, and right after it its operations. A constant response follows its operation, whose size it
// has.
func (m *measureCommand) measureAll(ctx context.Context, s *stage, connections int, out io.Writer) error {
	var bound sample
	var boundOf *limit
	for i := range operations {
		o := &operations[i]
		if !m.Only.MatchString(o.name) {
			continue
		}
		var err error
		if boundOf != o.limit {
			boundOf = o.limit
			fmt.Fprintln(out, "# limit:", o.limit.name)
			if !o.limit.constant {
				if bound, err = s.measureLimit(ctx, *o.limit, connections); err != nil {
					return fmt.Errorf("limit of %s: %w", o.name, err)
				}
			}
		}
		measured, used, err := s.measureOperation(ctx, o, connections)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		if o.limit.constant {
			server := s.constant
			if o.plain {
				server = s.plainConstant
			}
			l := load{connections: connections, requests: inTurns(request{path: fmt.Sprintf("/%d", measured.BodySize)}), warm: true}
			if bound, err = l.run(s.duration(), func() {}, server); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("Benchmark_%s/limiter=%s/connections=%d", strings.NewReplacer(", ", "/", " ", "_").Replace(o.name),
			cmp.Or(o.limiter, "none"), connections)
		fmt.Fprintf(out, "%s/of=limit %s\n%s/of=service %s %s\n", name, bound.line(), name, measured.line(), ratios(measured, bound, used))
		if len(o.bare.statements) > 0 {
			least, err := s.measureBare(ctx, i, measured.BodySize, connections)
			if err != nil {
				return fmt.Errorf("bare handler of %s: %w", o.name, err)
			}
			fmt.Fprintf(out, "%s/of=bare %s %.3f rate_ratio\n", name, least.line(), least.figures().Rate/bound.figures().Rate)
		}
	}
	return nil
}

// line is how many requests there were, and the figures that an operation and its limit both have.
func (s sample) line() string {
	f := s.figures()
	return fmt.Sprintf("%d %.1f rate/s %.3f p50_ms %.3f p99_ms", len(s.Latencies), f.Rate, f.P50, f.P99)
}

// ratios are those of an operation to its limit, and what the service used for it.
func ratios(measured, bound sample, used used) string {
	got, limit := measured.figures(), bound.figures()
	ofMachine := 100 * measured.CPU.Seconds() / measured.Elapsed.Seconds() / float64(runtime.NumCPU())
	return fmt.Sprintf("%.3f rate_ratio %.3f p99_ratio %.4f cpu_ms_per_request %.4f database_cpu_ms_per_request %.4f redis_cpu_ms_per_request %.0f wal_bytes_per_request %.1f allocs_per_request %.1f peak_rss_mib "+
		"%.1f load_generator_percent %d body_bytes", got.Rate/limit.Rate, got.P99/limit.P99, used.cpu, used.databaseCPU, used.redisCPU, used.wal, used.allocations, used.peakRSS,
		ofMachine, measured.BodySize)
}

// used is what was used for each request, see spent, and the service's memory at most.
type used struct{ cpu, databaseCPU, redisCPU, wal, allocations, peakRSS float64 }

// measureOperation sends a load to a service, and measures both.
func (s *stage) measureOperation(ctx context.Context, o *operation, connections int) (measured sample, u used, err error) {
	work, err := o.load(ctx, s, connections)
	if err != nil {
		return measured, u, err
	}
	target := o.service(s)
	callers, err := work.connect(target.endpoint)
	if err != nil {
		return measured, u, err
	}
	defer callers.close()
	runtime.GC()                                                                             // what was prepared is not collected during the measurement
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", target.Process.Pid), []byte("5"), 0) // forgets the peak of memory; where it fails, that of before stays
	var profile errgroup.Group
	if s.Profiles != "" {
		profile.Go(func() error { return s.profile(ctx, target, o, connections) })
	}
	before, err := s.spent(ctx, target)
	if err != nil {
		return measured, u, err
	}
	if measured, err = callers.run(s.duration()); err != nil {
		return measured, u, err
	}
	after, err := s.spent(ctx, target)
	if err != nil {
		return measured, u, err
	}
	u = after.since(before, len(measured.Latencies))
	u.peakRSS = target.peakRSS()
	return measured, u, profile.Wait()
}

func (s *stage) profile(ctx context.Context, target *service, o *operation, connections int) error {
	taken, err := get(ctx, http.DefaultClient, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", target.profiles, s.Seconds))
	if err != nil {
		return fmt.Errorf("profile (was the program built with -tags profile?): %w", err)
	}
	if err := os.MkdirAll(s.Profiles, 0o755); err != nil {
		return err
	}
	file := filepath.Join(s.Profiles, fmt.Sprintf("%s-%s-%d.pprof", o.name, target.name, connections))
	return os.WriteFile(file, taken, 0o644) //nolint:gosec // anybody may read profiles
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown\n"
	}
	return string(text)
}

type sample struct {
	Latencies    []time.Duration
	Statuses     map[int]int   // how often each status came; 0: no response
	BodySize     int           // of the last response
	Elapsed, CPU time.Duration // CPU is what this process took to send
}

func (s *sample) add(status int, latency time.Duration) {
	s.Statuses[status]++
	s.Latencies = append(s.Latencies, latency)
}

func (s *sample) merge(other sample) {
	s.Latencies = append(s.Latencies, other.Latencies...)
	s.BodySize = max(s.BodySize, other.BodySize)
	for status, n := range other.Statuses {
		s.Statuses[status] += n
	}
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// figures of one measurement: requests a second, and latencies in milliseconds.
type figures struct{ Rate, P50, P99 float64 }

func (s sample) figures() figures {
	sorted := slices.Sorted(slices.Values(s.Latencies))
	return figures{float64(len(sorted)) / max(s.Elapsed, 1).Seconds(), percentile(sorted, 50), percentile(sorted, 99)}
}

// percentile of sorted durations, in milliseconds.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(len(sorted)-1, len(sorted)*p/100)]) / float64(time.Millisecond)
}
