package usage

import (
	"cmp"
	"context"
	"slices"
	"time"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/postgres"
	"github.com/jackc/pgx/v5"
)

const (
	// LatenciesKept is how long latencies are kept.
	LatenciesKept  = 8 * oneDay
	latenciesEvery = time.Minute
)

// Latency is how long requests of an operation took in an hour, and which part of it the database and the limiter had. Statements that ran at once
// count one by one.
type Latency struct {
	Operation string
	Hour      time.Time
	Requests  int64
	Total     time.Duration // the sum
	Database  time.Duration // of it, without the limiter's statements
	Limiter   time.Duration
	durations durations
}

type latencyKey struct {
	operation string
	hour      int64
}

func (l *Latency) add(other Latency) {
	l.Requests += other.Requests
	l.Total += other.Total
	l.Database += other.Database
	l.Limiter += other.Limiter
	for i, n := range other.durations {
		l.durations[i] += n
	}
}

// SumOf returns the sum of latencies of one operation.
func SumOf(latencies []Latency) (sum Latency) {
	for _, l := range latencies {
		sum.Operation = l.Operation
		sum.add(l)
	}
	return sum
}

// Mean returns the mean duration.
func (l Latency) Mean() time.Duration { return l.Total / time.Duration(max(1, l.Requests)) }

// Quantile returns a duration that the share q of the requests did not exceed, 0 without requests.
func (l Latency) Quantile(q float64) time.Duration {
	return Figures{Requests: l.Requests, durations: l.durations}.Quantile(q)
}

// ShareOf returns a part as a share of the total, at most 1.
func (l Latency) ShareOf(part time.Duration) float64 {
	return min(1, float64(part)/float64(max(1, l.Total)))
}

// Took counts a request of the given total. It never waits for the database.
func (u *Usage) Took(request Latency) {
	request.Hour, request.Requests = u.now().UTC().Truncate(time.Hour), 1
	request.durations[bucket(request.Total)] = 1
	u.latencies.Add(request)
}

// writeLatencies adds a batch, or nothing, and deletes what is too old. Rows are locked in one order.
func (u *Usage) writeLatencies(ctx context.Context, batch []Latency) (int, error) {
	slices.SortFunc(batch, func(a, b Latency) int { return cmp.Or(a.Hour.Compare(b.Hour), cmp.Compare(a.Operation, b.Operation)) })
	rows := postgres.Map(batch, func(l Latency) usagedb.AddLatencyParams {
		return usagedb.AddLatencyParams{
			Hour: l.Hour, Operation: l.Operation, Requests: l.Requests, TotalUs: l.Total.Microseconds(), DatabaseUs: l.Database.Microseconds(),
			LimiterUs: l.Limiter.Microseconds(), Durations: l.durations[:],
		}
	})
	return 0, postgres.InTx(ctx, u.pool, func(tx pgx.Tx) error {
		queries := u.queries.WithTx(tx)
		return cmp.Or(exec(queries.AddLatency(ctx, rows)), queries.DeletePastLatencies(ctx, batch[len(batch)-1].Hour.Add(-LatenciesKept)))
	})
}

// Latencies returns those of each operation since an hour, by operation and hour. Hours without requests are missing.
func (u *Usage) Latencies(ctx context.Context, since time.Time) ([]Latency, error) {
	rows, err := u.queries.ListLatencies(ctx, since.UTC().Truncate(time.Hour))
	return postgres.Map(rows, func(row usagedb.LatencyHour) Latency {
		l := Latency{
			Operation: row.Operation, Hour: row.Hour.UTC(), Requests: row.Requests, Total: time.Duration(row.TotalUs) * time.Microsecond,
			Database: time.Duration(row.DatabaseUs) * time.Microsecond, Limiter: time.Duration(row.LimiterUs) * time.Microsecond,
		}
		copy(l.durations[:], row.Durations)
		return l
	}), postgres.Wrap("usage: latencies", err)
}
