package main

import (
	"slices"
	"syscall"
	"time"
)

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
