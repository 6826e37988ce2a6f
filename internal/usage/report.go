package usage

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/postgres"
)

// ErrClientNotFound means that there is no such client.
var ErrClientNotFound = errors.New("no such client")

// Report is the usage of one client since an hour.
type Report struct {
	ClientID          uuid.UUID
	Name, Status      string
	RequestsPerMinute int // of its rate policy, as it is now

	Since, Until time.Time // Since is a whole hour

	Total         Figures
	Operations    []Operation // that were requested, sorted by name
	Hours         []Hour      // every hour from Since on; the last one is not over
	Charged       int64       // requests that the limiter charged to the budget
	BusiestMinute int64       // the most of them in one minute
	Connections   Connections // as they are now
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

// count takes what lies beyond the last bucket for the longest durations: a newer server on the same database may know more
// buckets.
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

// RateLimitedShare is the share of requests with status 429, 0 to 1.
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

// BudgetUsed is the share of the budget that was used: 0 to 1, and a little more with a burst, which exceeds the rate.
func (r Report) BudgetUsed() float64 {
	return float64(r.Charged) / (float64(r.RequestsPerMinute) * max(r.Until.Sub(r.Since).Minutes(), 1))
}

// PeakBudgetUsed is the same for the busiest minute.
func (r Report) PeakBudgetUsed() float64 { return share(r.BusiestMinute, int64(r.RequestsPerMinute)) }

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Of reports on one client from the hour of since on. Error: ErrClientNotFound.
func (u *Usage) Of(ctx context.Context, clientID uuid.UUID, since time.Time) (Report, error) {
	return u.of(ctx, clientID, since, u.bounds)
}

// Requests is a report as [Usage.Of] has it, without connections, which take longer to count. Error: ErrClientNotFound.
func (u *Usage) Requests(ctx context.Context, clientID uuid.UUID, since time.Time) (Report, error) {
	return u.of(ctx, clientID, since, countBounds{})
}

func (u *Usage) of(ctx context.Context, clientID uuid.UUID, since time.Time, bounds countBounds) (Report, error) {
	reports, err := u.reports(ctx, clientID, since, bounds)
	if err != nil {
		return Report{}, err
	}
	if clientID == uuid.Nil || len(reports) == 0 {
		return Report{}, ErrClientNotFound
	}
	return reports[0], nil
}

// Connections counts a client's connections as they are now, by their state. A client that does not exist has none.
func (u *Usage) Connections(ctx context.Context, clientID uuid.UUID) (Connections, error) {
	counted, unknown, err := u.countInTime(ctx, []uuid.UUID{clientID}, u.bounds)
	found := counted[clientID]
	if unknown {
		found.Precision = Unknown
	}
	return found, postgres.Wrap("usage: connections", err)
}

// All reports on every client from the hour of since on, oldest client first.
func (u *Usage) All(ctx context.Context, since time.Time) ([]Report, error) {
	return u.reports(ctx, uuid.Nil, since, u.bounds)
}

// span is what a report is about, from a whole hour on until now. Older counts than are kept have been deleted.
func (u *Usage) span(since time.Time) (from, until time.Time) {
	until = u.now().UTC()
	if earliest := until.Add(-Retention); since.Before(earliest) {
		since = earliest
	}
	return since.UTC().Truncate(time.Hour), until
}
