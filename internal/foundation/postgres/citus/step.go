package citus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// lockWait is how long a step first waits for a table's lock before it lets others pass and tries again. Each time it waits half as long
// again, up to mostLockWait. That is less than deadlock_timeout (1 s), after which PostgreSQL looks for deadlocks, so that no statement
// of the service is canceled for a step.
const (
	lockWait     = 300 * time.Millisecond
	mostLockWait = 900 * time.Millisecond
)

// failedTransaction is an error that Citus sometimes returns after a lock was not free on another node.
const failedTransaction postgres.Code = "25P02"

// step runs a statement. If the statement holds up others because it waits for a lock, step lets them pass for four times as long, and tries
// again.
func (d distributor) step(ctx context.Context, name, statement string, args ...any) error {
	began, told := time.Now(), ""
	for wait := lockWait; ; wait = min(wait*3/2, mostLockWait) {
		tried := time.Now()
		holder, err := d.try(ctx, wait, statement, args)
		switch {
		case err == nil:
			d.done(name, time.Since(began))
			if ctx.Err() != nil {
				return fmt.Errorf("distribute: interrupted: the step %q is finished: %w", name, context.Cause(ctx))
			}
			return nil
		case ctx.Err() != nil && (postgres.Is(err, postgres.QueryCanceled) || postgres.Is(err, postgres.LockNotAvailable)):
			return fmt.Errorf("distribute: interrupted: the step %q was ended, and the next call takes it again: %w", name, context.Cause(ctx))
		case !postgres.Is(err, postgres.LockNotAvailable) && (!postgres.Is(err, failedTransaction) || time.Since(tried) < wait):
			return fmt.Errorf("distribute: %s: %w", name, err)
		}
		lockWait := min(time.Since(tried), mostLockWait) // a copy of a large table holds up nobody until its last moments
		if holder != told {
			told = holder
			d.done(name+": makes way for "+holder, lockWait)
		}
		if !work.Pause(ctx, 4*lockWait) {
			return fmt.Errorf("distribute: interrupted between two steps: %w", context.Cause(ctx))
		}
	}
}

// try runs a statement, and cancels it if ctx ends. It also returns who holds a lock for which it waited.
func (d distributor) try(ctx context.Context, wait time.Duration, statement string, args []any) (holder string, err error) {
	undisturbed := context.WithoutCancel(ctx) // pgx would close the connection, and leave the statement at work
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		look := time.NewTicker(lockWait / 3)
		defer look.Stop()
		for {
			select {
			case <-ended:
				return
			case <-look.C:
			}
			if ctx.Err() != nil {
				_ = d.conn.PgConn().CancelRequest(undisturbed)
				continue
			}
			var waiting string
			if d.watch.QueryRow(undisturbed, holders, d.conn.PgConn().PID()).Scan(&waiting) == nil && waiting != "" {
				holder = waiting
			}
		}
	})
	err = d.run(undisturbed, wait, statement, append([]any{pgx.QueryExecModeSimpleProtocol}, args...))
	close(ended)
	watching.Wait()
	if holder == "" {
		holder = "a statement on another node"
	}
	return holder, err
}

// run runs a statement in a transaction, so that the other nodes wait no longer for a lock either. A copy of a large table cannot be in one.
func (d distributor) run(ctx context.Context, wait time.Duration, statement string, args []any) error {
	timeout := fmt.Sprintf("lock_timeout = %d", wait.Milliseconds())
	if strings.Contains(statement, concurrently) {
		if _, err := d.conn.Exec(ctx, "set "+timeout); err != nil {
			return err
		}
		_, err := d.conn.Exec(ctx, statement, args...)
		return err
	}
	return pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local "+timeout); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, statement, args...)
		return err
	})
}

// holders says whose lock a backend waits for, or nothing.
const holders = `select coalesce(string_agg(concat('backend ', pid, ' of ', usename, ' (' || nullif(application_name, '') || ')'),
	' and ' order by pid), '') from pg_stat_activity where pid = any (pg_blocking_pids($1::int))`
