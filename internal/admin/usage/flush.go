package usage

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

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
