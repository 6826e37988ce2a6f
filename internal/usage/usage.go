package usage

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"connect-svc/internal/postgres"

	"github.com/google/uuid"
)

const (
	// Retention is how long counts are kept.
	Retention = 35 * 24 * time.Hour

	flushEvery = 5 * time.Second
	flushLimit = 5 * time.Second // for one batch

	// maxRows bounds what waits in memory: about 200 bytes each.
	maxRows  = 20_000
	maxBatch = 1_000
)

// bounds are the upper bounds of the buckets of durations; the last bucket has none. Only add at the end: the buckets
// of old rows stand in the database.
var bounds = [...]time.Duration{
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// durations counts requests by how long they took.
type durations [len(bounds) + 1]int64

// bucket is where a duration is counted: the first whose bound is not below it.
func bucket(took time.Duration) int {
	index, _ := slices.BinarySearch(bounds[:], took)
	return index
}

// Request is an answered request of a client.
type Request struct {
	ClientID  uuid.UUID
	Operation string // a name of the program's, never the caller's text
	Status    int    // of HTTP
	Duration  time.Duration
	Paid      bool // the limiter took it from the client's budget
}

// Usage counts requests and reports what was counted. It is safe for concurrent use.
type Usage struct {
	store  store
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	rows    map[rowKey]*row // what waits for the database
	dropped uint64          // requests that were not counted
	told    uint64          // how many of them the log knows
}

// rowKey and row are a row of the database that waits.
type rowKey struct {
	clientID  uuid.UUID
	minute    int64 // Unix time
	operation string
	status    int
}

type row struct {
	requests, paid int64
	durations      durations
}

func (r *row) add(other row) {
	r.requests += other.requests
	r.paid += other.paid
	for i, n := range other.durations {
		r.durations[i] += n
	}
}

// New counts into the database of pool. Nothing is written until Run is called.
func New(pool *postgres.Pool, logger *slog.Logger, now func() time.Time) *Usage {
	return &Usage{store: newStore(pool), logger: logger, now: now, rows: map[rowKey]*row{}}
}

// Count notes a request. It never waits for the database.
func (u *Usage) Count(request Request) {
	one := row{requests: 1}
	if request.Paid {
		one.paid = 1
	}
	one.durations[bucket(request.Duration)] = 1
	minute := u.now().Truncate(time.Minute).Unix()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(rowKey{request.ClientID, minute, request.Operation, request.Status}, one)
}

// add needs the lock.
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

// Run writes what was counted every few seconds until ctx ends, and then what is left. Call it once, and end ctx when no
// request can come any more. The end of ctx breaks no batch off: whether it was written would not be known.
func (u *Usage) Run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			u.flush(lasting)
			return
		case <-ticker.C:
			u.flush(lasting)
		}
	}
}

// flush writes what waits. What cannot be written waits for the next flush.
func (u *Usage) flush(ctx context.Context) {
	u.mu.Lock()
	rows, dropped := u.rows, u.dropped-u.told
	u.rows, u.told = map[rowKey]*row{}, u.dropped
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

// writeSome writes up to a batch of rows and takes them out. So much is written within the limit by a slow database, too.
func (u *Usage) writeSome(ctx context.Context, rows map[rowKey]*row) error {
	batch := make(map[rowKey]*row, min(len(rows), maxBatch))
	for key, counted := range rows {
		if len(batch) == maxBatch {
			break
		}
		batch[key] = counted
	}
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	if err := u.store.add(ctx, batch); err != nil {
		return err
	}
	for key := range batch {
		delete(rows, key)
	}
	return nil
}

// putBack lets rows wait that could not be written. What came in the meantime is added to them and not the other way
// round, since it is little: requests wait for the lock.
func (u *Usage) putBack(rows map[rowKey]*row) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since := u.rows
	u.rows = rows
	for key, counted := range since {
		u.add(key, *counted)
	}
}

// Waiting is how many rows wait for the database, and how many requests since the start were not counted because too
// many did.
func (u *Usage) Waiting() (rows int, dropped uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.rows), u.dropped
}

// Sweep deletes counts that are older than [Retention]. Every server may call it at any time.
func (u *Usage) Sweep(ctx context.Context) error {
	if err := u.store.sweep(ctx); err != nil {
		return fmt.Errorf("usage: sweep: %w", err)
	}
	return nil
}
