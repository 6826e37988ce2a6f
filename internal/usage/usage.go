package usage

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"connect-svc/internal/postgres"
	"connect-svc/internal/timelimit"

	"github.com/google/uuid"
)

const (
	// Retention is how long counts are kept.
	Retention = 35 * 24 * time.Hour

	flushEvery = 5 * time.Second

	// maxRows bounds what waits in memory: about 200 bytes each.
	maxRows  = 20_000
	maxBatch = 1_000
)

// bounds are the upper bounds of the buckets of durations; the last bucket has none. Only append: the database holds rows
// with these buckets.
var bounds = [...]time.Duration{
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// durations counts requests by how long they took.
type durations [len(bounds) + 1]int64

// bucket is the index of the first bucket whose bound is not below the duration.
func bucket(took time.Duration) int {
	index, _ := slices.BinarySearch(bounds[:], took)
	return index
}

// Request is a finished request of a client.
type Request struct {
	ClientID  uuid.UUID
	Operation string // a name of the contract, never the caller's text
	Status    int    // of HTTP
	Duration  time.Duration
	Charged   bool // the limiter charged it to the client's budget
}

// Usage counts requests and reports what was counted. It is safe for concurrent use.
type Usage struct {
	store
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	rows    map[rowKey]*row // that wait to be written
	dropped uint64          // requests that were not counted
	logged  uint64          // how many of them have been logged

	errors   clientErrors
	unproven unproven

	flushLimit time.Duration // for one batch; tests have more patience
}

// rowKey and row are a row that waits to be written.
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
func New(pool *postgres.Pool, limits timelimit.Limits, logger *slog.Logger, now func() time.Time) *Usage {
	return &Usage{store: newStore(pool, limits), logger: logger, now: now, rows: map[rowKey]*row{},
		errors: clientErrors{waiting: map[bool]map[Refusal]ClientError{}}, flushLimit: 5 * time.Second}
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

// Run writes counts and errors every few seconds until ctx ends, and then once more. Call it once, and end ctx when no request
// can arrive any more. The end of ctx does not cancel a batch: it would be unknown whether it was written.
func (u *Usage) Run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			u.flush(lasting)
			u.flushErrors(lasting)
			return
		case <-ticker.C:
			u.flush(lasting)
			u.flushErrors(lasting)
		}
	}
}

// flush writes the rows that wait. Rows that cannot be written wait for the next flush.
func (u *Usage) flush(ctx context.Context) {
	u.mu.Lock()
	rows, dropped := u.rows, u.dropped-u.logged
	u.rows, u.logged = map[rowKey]*row{}, u.dropped
	u.mu.Unlock()
	if dropped > 0 {
		u.logger.WarnContext(ctx, "requests were not counted: too many counts wait for the database", "requests", dropped)
	}
	for len(rows) > 0 {
		if err := u.writeSome(ctx, rows); err != nil {
			u.logger.ErrorContext(ctx, "the counts of usage wait", "rows", len(rows), "cause", err)
			u.putBack(rows)
			return
		}
	}
}

// writeSome writes at most one batch of rows and removes them. A batch is small enough for a slow database to write it
// within its time.
func (u *Usage) writeSome(ctx context.Context, rows map[rowKey]*row) error {
	batch := make(map[rowKey]*row, min(len(rows), maxBatch))
	for key, counted := range rows {
		if len(batch) == maxBatch {
			break
		}
		batch[key] = counted
	}
	ctx, cancel := context.WithTimeout(ctx, u.flushLimit)
	defer cancel()
	if err := u.write(ctx, batch); err != nil {
		return err
	}
	for key := range batch {
		delete(rows, key)
	}
	return nil
}

// putBack keeps rows that could not be written. It adds the few rows that were counted meanwhile to them, not the other way
// round, because requests wait for the lock.
func (u *Usage) putBack(rows map[rowKey]*row) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since := u.rows
	u.rows = rows
	for key, counted := range since {
		u.add(key, *counted)
	}
}

// Waiting returns how many rows wait to be written, and how many requests since the start were not counted because too
// many rows waited.
func (u *Usage) Waiting() (rows int, dropped uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.rows), u.dropped
}
