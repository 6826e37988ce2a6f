package usage

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

const (
	// Retention is how long counts are kept.
	Retention = 35 * 24 * time.Hour

	flushEvery = 5 * time.Second

	// maxRows bounds the rows that wait in memory: about 200 bytes each.
	maxRows  = 20_000
	maxBatch = 1_000
)

// bounds are the upper bounds of the buckets of durations; the last bucket has none. Only append: the database has rows with these
// buckets.
var bounds = [...]time.Duration{
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// durations counts requests by how long they took.
type durations [len(bounds) + 1]int64

// bucket returns the index of the first bucket whose bound is not below the duration.
func bucket(took time.Duration) int {
	index, _ := slices.BinarySearch(bounds[:], took)
	return index
}

// Request is a finished request of a client.
type Request struct {
	ClientID  uuid.UUID
	Operation string // a name of the contract, never text of the caller
	Status    int    // of HTTP
	Duration  time.Duration
	Charged   bool // the limiter charged it to the client's budget
}

// Usage counts requests and reports what was counted. It is safe for concurrent use.
type Usage struct {
	pool    *postgres.Pool
	queries *usagedb.Queries
	bounds  countBounds
	logger  *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	rows    map[rowKey]*row // wait to be written
	days    days            // wait to be added
	dropped uint64          // requests that were not counted
	logged  uint64          // those of them that have been logged

	errors clientErrors

	flushLimit time.Duration // of one batch; tests have a longer one
}

// rowKey and row form a row that waits to be written.
type rowKey struct {
	clientID  uuid.UUID
	minute    int64 // Unix time
	operation string
	status    int
}

type row struct {
	requests, charged int64
	durations         durations
}

func (r *row) add(other row) {
	r.requests += other.requests
	r.charged += other.charged
	for i, n := range other.durations {
		r.durations[i] += n
	}
}

// New returns a Usage that counts into the database of pool. Nothing is written until Run is called.
func New(pool *postgres.Pool, limits work.Limits, logger *slog.Logger, now func() time.Time) *Usage {
	return &Usage{
		pool: pool, queries: usagedb.New(pool), logger: logger, now: now, rows: map[rowKey]*row{}, days: days{}, flushLimit: 5 * time.Second,
		bounds: countBounds{timeout: limits.Count, exact: 10_000},
		errors: clientErrors{waiting: map[bool]map[ErrorKind]ClientError{true: {}, false: {}}},
	}
}

// Count counts a request. It never waits for the database.
func (u *Usage) Count(request Request) {
	one := row{requests: 1}
	if request.Charged {
		one.charged = 1
	}
	one.durations[bucket(request.Duration)] = 1
	minute := u.now().Truncate(time.Minute).Unix()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(rowKey{request.ClientID, minute, request.Operation, request.Status}, one)
}

// add requires u.mu.
func (u *Usage) add(key rowKey, counted row) {
	waiting := u.rows[key]
	if waiting == nil {
		if len(u.rows) >= maxRows {
			u.dropped += uint64(counted.requests) //nolint:gosec // a number of requests
			return
		}
		waiting = new(row)
		u.rows[key] = waiting
	}
	waiting.add(counted)
}

// Waiting returns the number of rows that wait to be written, and of requests since the start that were not counted because too
// many rows waited.
func (u *Usage) Waiting() (rows int, dropped uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.rows), u.dropped
}

// Sweep deletes counts and errors that were older than [Retention] at that time, and days that were older than [DaysKept]. Any server may call it at any time.
func (u *Usage) Sweep(ctx context.Context, before time.Time) error {
	kept := before.Add(-Retention)
	_, counts := u.queries.SweepUsage(ctx, kept.Add(-time.Hour)) // from the beginning of the hour
	_, charged := u.queries.SweepCharged(ctx, kept)
	_, refused := u.queries.SweepClientErrors(ctx, kept)
	_, days := u.queries.SweepDays(ctx, before.UTC().AddDate(0, 0, -DaysKept))
	return postgres.Wrap("usage: sweep", errors.Join(counts, charged, refused, days))
}
