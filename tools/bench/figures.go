package main

import (
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Sample is the raw outcome of a measurement. Its name is public for net/rpc.
type Sample struct {
	Latencies    []time.Duration // of one worker after the other, each in order
	Statuses     map[int]int     // how often each status came; 0: no response
	BodySize     int             // of the last response
	Elapsed, CPU time.Duration   // CPU is what this process took to send
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// figures of one measurement, or the medians of several. Times are in milliseconds.
type figures struct {
	Rate float64 `json:"rate"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`

	// Of the service alone.
	CPU         float64 `json:"cpu_ms_per_request"`
	Allocations float64 `json:"allocs_per_request"`
	PeakRSS     float64 `json:"peak_rss_mib"`

	LoadShare float64 `json:"load_generator_share"` // of the machine
	BodySize  float64 `json:"body_bytes"`
}

func (s Sample) figures() figures {
	sorted := slices.Sorted(slices.Values(s.Latencies))
	return figures{
		Rate: float64(len(sorted)) / s.Elapsed.Seconds(), P50: percentile(sorted, 50), P99: percentile(sorted, 99),
		LoadShare: share(s.CPU, s.Elapsed), BodySize: float64(s.BodySize),
	}
}

// percentile of sorted durations, in milliseconds.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return milliseconds(sorted[min(len(sorted)-1, len(sorted)*p/100)])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// share of the machine that processor time was.
func share(cpu, elapsed time.Duration) float64 {
	return float64(cpu) / float64(elapsed) / float64(runtime.NumCPU())
}

// median has the median of each figure.
func median(rounds []figures) (m figures) {
	for _, field := range []func(*figures) *float64{
		func(f *figures) *float64 { return &f.Rate },
		func(f *figures) *float64 { return &f.P50 },
		func(f *figures) *float64 { return &f.P99 },
		func(f *figures) *float64 { return &f.CPU },
		func(f *figures) *float64 { return &f.Allocations },
		func(f *figures) *float64 { return &f.PeakRSS },
		func(f *figures) *float64 { return &f.LoadShare },
		func(f *figures) *float64 { return &f.BodySize },
	} {
		values := make([]float64, len(rounds))
		for i := range rounds {
			values[i] = *field(&rounds[i])
		}
		slices.Sort(values)
		n := len(values)
		*field(&m) = (values[(n-1)/2] + values[n/2]) / 2
	}
	return m
}
