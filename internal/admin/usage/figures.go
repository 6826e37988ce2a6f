package usage

import (
	"math"
	"time"

	"github.com/google/uuid"
)

// Report is the usage of one client since the start of an hour.
type Report struct {
	ClientID          uuid.UUID
	Name, Status      string
	RequestsPerMinute int // of its present rate policy

	Since, Until time.Time // Since is a whole hour

	Total         Figures
	Operations    []Operation // the requested ones, sorted by name
	Hours         []Hour      // every hour from Since on; the last one has not ended
	Charged       int64       // requests that the limiter charged to the budget
	BusiestMinute int64       // the most of them in one minute
	Connections   Connections // at present
}

// Operation is one operation in a report.
type Operation struct {
	Name  string
	Total Figures
	Hours []Figures // as many as the report has
}

// Hour is one hour of a report.
type Hour struct {
	Start time.Time
	Figures
	Charged, BusiestMinute int64
}

// Figures are counted requests.
type Figures struct {
	Requests    int64
	RateLimited int64 // status 429
	Refused     int64 // another 4xx
	Failed      int64 // 5xx
	durations   durations
}

// count adds buckets beyond the last one to the last one: a newer server on the same database may have more buckets.
func (f *Figures) count(status, bucket int, requests int64) {
	f.Requests += requests
	f.durations[min(bucket, len(f.durations)-1)] += requests
	switch {
	case status == 429:
		f.RateLimited += requests
	case status >= 500:
		f.Failed += requests
	case status >= 400:
		f.Refused += requests
	}
}

func (f *Figures) add(other Figures) {
	f.Requests += other.Requests
	f.RateLimited += other.RateLimited
	f.Refused += other.Refused
	f.Failed += other.Failed
	for i, n := range other.durations {
		f.durations[i] += n
	}
}

// RateLimitedShare returns the share of requests with status 429, 0 to 1.
func (f Figures) RateLimitedShare() float64 { return share(f.RateLimited, f.Requests) }

// Quantile estimates the q-quantile of the durations, 0 < q <= 1, by linear interpolation within a bucket. It is 0 without
// requests, and at most 10 s: longer durations are in one bucket.
func (f Figures) Quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(f.Requests)))
	var below int64
	lower := time.Duration(0)
	for i, n := range f.durations {
		if i == len(bounds) || rank == 0 {
			break
		}
		if below+n >= rank {
			return lower + time.Duration(float64(bounds[i]-lower)*float64(rank-below)/float64(n))
		}
		below, lower = below+n, bounds[i]
	}
	return lower
}

// BudgetUsed returns the used share of the budget: 0 to 1, or a little more after a burst, which exceeds the rate.
func (r Report) BudgetUsed() float64 {
	return float64(r.Charged) / (float64(r.RequestsPerMinute) * max(r.Until.Sub(r.Since).Minutes(), 1))
}

// PeakBudgetUsed returns the used share of the budget in the busiest minute.
func (r Report) PeakBudgetUsed() float64 { return share(r.BusiestMinute, int64(r.RequestsPerMinute)) }

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
