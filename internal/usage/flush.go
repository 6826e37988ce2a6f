package usage

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/panics"
	"connect-svc/internal/postgres"
)

// Run writes counts and errors every few seconds until ctx ends, and then once more. Call it once, and end ctx when no more requests
// can arrive. The end of ctx does not cancel a batch, because it would be unknown whether the batch was written.
func (u *Usage) Run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		u.flush(lasting)
		u.flushErrors(lasting)
		if ctx.Err() != nil {
			return
		}
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
	for len(rows) > 0 {
		if err := panics.Try(func() error { return u.writeSome(ctx, rows) }); err != nil {
			u.logger.ErrorContext(ctx, "the counts of usage wait", "rows", len(rows), "cause", err)
			u.putBack(rows)
			return
		}
	}
}

// writeSome writes at most one batch of rows and removes them. A slow database can write a batch within its time.
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

// write adds all rows or none. It sorts them, so that servers that write concurrently cannot deadlock.
func (u *Usage) write(ctx context.Context, rows map[rowKey]*row) error {
	hours, charged := inHours(rows), inMinutes(rows)
	return postgres.InTx(ctx, u.pool, func(tx pgx.Tx) error {
		var failure error
		collect := func(_ int, err error) { failure = cmp.Or(failure, err) }
		queries := u.queries.WithTx(tx)
		queries.AddUsage(ctx, hours).Exec(collect)
		if failure == nil {
			queries.AddCharged(ctx, charged).Exec(collect)
		}
		return failure
	})
}

// inHours returns the requests of rows by hour.
func inHours(rows map[rowKey]*row) []usagedb.AddUsageParams {
	sums := map[rowKey]*row{}
	for key, counted := range rows {
		key.minute -= key.minute % int64(time.Hour/time.Second)
		if sums[key] == nil {
			sums[key] = new(row)
		}
		sums[key].add(*counted)
	}
	batch := make([]usagedb.AddUsageParams, 0, len(sums))
	for key, counted := range sums {
		batch = append(batch, usagedb.AddUsageParams{
			ClientID:  key.clientID,
			Hour:      time.Unix(key.minute, 0).UTC(),
			Operation: key.operation,
			Status:    int16(key.status), //nolint:gosec // a status of HTTP
			Requests:  counted.requests,
			Durations: counted.durations[:],
		})
	}
	slices.SortFunc(batch, func(a, b usagedb.AddUsageParams) int {
		return cmp.Or(bytes.Compare(a.ClientID[:], b.ClientID[:]), a.Hour.Compare(b.Hour),
			cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status))
	})
	return batch
}

// inMinutes returns the charged requests of clients by minute, for all operations.
func inMinutes(rows map[rowKey]*row) []usagedb.AddChargedParams {
	type of struct {
		clientID uuid.UUID
		minute   int64
	}
	sums := map[of]int64{}
	for key, counted := range rows {
		if counted.charged > 0 {
			sums[of{key.clientID, key.minute}] += counted.charged
		}
	}
	batch := make([]usagedb.AddChargedParams, 0, len(sums))
	for key, charged := range sums {
		batch = append(batch, usagedb.AddChargedParams{ClientID: key.clientID, Minute: time.Unix(key.minute, 0).UTC(), Charged: charged})
	}
	slices.SortFunc(batch, func(a, b usagedb.AddChargedParams) int {
		return cmp.Or(bytes.Compare(a.ClientID[:], b.ClientID[:]), a.Minute.Compare(b.Minute))
	})
	return batch
}
