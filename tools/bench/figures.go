package main

import (
	"reflect"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// sample is the raw outcome of a measurement.
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

// merge adds what other callers measured at the same time.
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

func (s sample) figures() figures {
	sorted := slices.Sorted(slices.Values(s.Latencies))
	elapsed := max(s.Elapsed, 1).Seconds()
	return figures{
		Rate: float64(len(sorted)) / elapsed, P50: percentile(sorted, 50), P99: percentile(sorted, 99),
		LoadShare: s.CPU.Seconds() / elapsed / float64(runtime.NumCPU()), BodySize: float64(s.BodySize),
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

// median has the median of each figure.
func median(rounds []figures) (m figures) {
	for field := range reflect.TypeFor[figures]().NumField() {
		values := make([]float64, len(rounds))
		for i, round := range rounds {
			values[i] = reflect.ValueOf(round).Field(field).Float()
		}
		slices.Sort(values)
		n := len(values)
		reflect.ValueOf(&m).Elem().Field(field).SetFloat((values[(n-1)/2] + values[n/2]) / 2)
	}
	return m
}
