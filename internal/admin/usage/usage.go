// Package usage counts the requests of each client by hour, operation and status, their durations, and how many were charged to the
// client's rate budget in each minute. It counts what happens on each day, to each client and in all. It also keeps the latest refused requests of
// each client with their reasons.
//
// # Invariants
//
//   - Counting never waits for the database. Counts are kept in memory and added to the database every few seconds and when
//     the service stops (TestRunWritesWhatIsLeft).
//
//   - The rows hold the sum over all servers (TestManyServersAtOnce).
//
//   - Memory is bounded. While the database is down, counts beyond the bound are dropped, and the log says so
//     (TestCountsWaitWithinBounds).
//
//   - Counts are kept for [retention] (TestSweep). They name a client, an operation, a status and an hour, or a client and a minute,
//     and never a user (TestServersAddUp, users.TestDeletedUserLeavesNothing).
//
//   - The figures of a day are what a count of all tables gives, by client and in all (TestDaysAreAFullCount). Several servers count and
//     fold at once (TestDaysOfManyServers), and a fold that fails leaves nothing (TestDaysWait). They are kept for [daysKept]
//     (TestDaysOfThePast).
//
//   - An error consists of fixed words, and nothing that a caller sent (TestErrorsOfAClient).
//
//   - Errors of unauthenticated requests that named a client are kept apart from the client's own, in memory and in the database, so
//     that strangers displace no error of a client (TestErrorsOfANetwork).
//
// The counts are estimates and must not be used for billing: a server that is killed loses some seconds, and a batch whose outcome
// is unknown is written again.
package usage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// Retention is how long counts are kept.
	retention = 35 * 24 * time.Hour

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

// Sweep deletes counts and errors that were older than [retention] at that time, and days that were older than [daysKept]. Any server may call it at any time.
func (u *Usage) Sweep(ctx context.Context, before time.Time) error {
	kept := before.Add(-retention)
	_, counts := u.queries.SweepUsage(ctx, kept.Add(-time.Hour)) // from the beginning of the hour
	_, charged := u.queries.SweepCharged(ctx, kept)
	_, refused := u.queries.SweepClientErrors(ctx, kept)
	_, days := u.queries.SweepDays(ctx, before.UTC().AddDate(0, 0, -daysKept))
	return postgres.Wrap("usage: sweep", errors.Join(counts, charged, refused, days))
}

// Run writes counts and errors every few seconds until ctx ends, and then once more. Call it once, and end ctx when no more requests
// can arrive. The end of ctx does not cancel a batch, because it would be unknown whether the batch was written.
func (u *Usage) Run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	for again := true; again; {
		again = work.Pause(ctx, flushEvery)
		u.flush(lasting)
		u.flushDays(lasting)
		u.flushErrors(lasting)
	}
}

// flush writes the waiting rows. If that fails they wait for the next flush.
func (u *Usage) flush(ctx context.Context) {
	u.mu.Lock()
	rows, dropped := u.rows, u.dropped-u.logged
	u.rows, u.logged = map[rowKey]*row{}, u.dropped
	u.mu.Unlock()
	if dropped > 0 {
		u.logger.WarnContext(ctx, "requests were not counted: too many counts wait for the database", "requests", dropped)
	}
	for batch := range slices.Chunk(slices.Collect(maps.Keys(rows)), maxBatch) {
		if err := work.Try(func() error { return u.write(ctx, rows, batch) }); err != nil {
			u.logger.ErrorContext(ctx, "the counts of usage wait", "rows", len(rows), "cause", err)
			u.putBack(rows)
			return
		}
		for _, key := range batch {
			delete(rows, key)
		}
	}
}

// putBack keeps rows that could not be written. It adds the few rows that were counted since to them, not the other way
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

// write adds the rows of a batch, or none. It sorts them, so that servers that write concurrently cannot deadlock.
func (u *Usage) write(ctx context.Context, rows map[rowKey]*row, batch []rowKey) error {
	ctx, cancel := context.WithTimeout(ctx, u.flushLimit)
	defer cancel()
	slices.SortFunc(batch, func(a, b rowKey) int {
		return cmp.Or(bytes.Compare(a.clientID[:], b.clientID[:]), cmp.Compare(a.operation, b.operation),
			cmp.Compare(a.status, b.status), cmp.Compare(a.minute, b.minute))
	})
	hours := postgres.Map(batch, func(key rowKey) usagedb.AddUsageParams {
		return usagedb.AddUsageParams{
			ClientID: key.clientID, Hour: time.Unix(key.minute, 0).UTC().Truncate(time.Hour), Operation: key.operation,
			Status: int16(key.status), Requests: rows[key].requests, Durations: rows[key].durations[:],
		}
	})
	slices.SortFunc(batch, func(a, b rowKey) int {
		return cmp.Or(bytes.Compare(a.clientID[:], b.clientID[:]), cmp.Compare(a.minute, b.minute))
	})
	var minutes []usagedb.AddChargedParams
	for _, key := range batch {
		if charged := rows[key].charged; charged > 0 {
			minute := usagedb.AddChargedParams{ClientID: key.clientID, Minute: time.Unix(key.minute, 0).UTC()}
			if n := len(minutes); n == 0 || minutes[n-1].ClientID != minute.ClientID || !minutes[n-1].Minute.Equal(minute.Minute) {
				minutes = append(minutes, minute)
			}
			minutes[len(minutes)-1].Charged += charged
		}
	}
	return postgres.InTx(ctx, u.pool, func(tx pgx.Tx) error {
		var failure error
		collect := func(_ int, err error) { failure = cmp.Or(failure, err) }
		queries := u.queries.WithTx(tx)
		queries.AddUsage(ctx, hours).Exec(collect)
		if failure == nil {
			queries.AddCharged(ctx, minutes).Exec(collect)
		}
		return failure
	})
}
