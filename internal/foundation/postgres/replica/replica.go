// Package replica reads from streaming replicas of the database. It is for reads that may be up to five seconds old.
//
// # Invariants
//
//   - Rows from a replica are at most five seconds old, whatever the clocks of the servers say (cluster.TestReadReplica).
//   - A server that is not a replica, does not answer, is late or has another history than the primary is left out, and the primary is
//     read (TestReplicasThatAreNone, cluster.TestReplicaOfAnotherHistory).
package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// Set is the streaming replicas of a primary. A nil *Set is empty. It is safe for concurrent use.
//
// The age of a replica's rows follows from its position in the write-ahead log: they are as of the latest instant at which the
// primary was not further than the replica is now. Replicas of an idle primary are therefore never late, a replica that has lost
// its primary is late, and no two clocks are compared.
//
// Positions say nothing about a replica whose primary was another server, before a failover or a restore. It lacks the mark that the
// primary's history has (postgres.MarkHistory), or is ahead of the primary.
type Set struct {
	primary *postgres.Pool
	list    []*replica
	limits  work.Limits
	now     func() time.Time
	logger  *slog.Logger
	next    atomic.Uint64

	checking sync.Mutex
	seen     []position // of the primary, newest last
	mark     *string    // of the primary's history; nil: unknown

	answered, failed atomic.Uint64
}

type replica struct {
	pool *postgres.Pool
	name string // host:port
	asOf atomic.Pointer[time.Time]
}

// position is the end of the primary's write-ahead log at an instant. Everything that was committed before is within it.
type position struct {
	at  time.Time
	lsn int64
}

// Open prepares pools for the replicas at url, whose hosts are separated by commas. Each host must be one replica,
// not a load balancer for several. It does not connect: a replica is not read until [Set.Check] has found it current, and a
// replica that is down at the start is not an error. Call Close afterwards.
func Open(
	ctx context.Context, url string, primary *postgres.Pool, limits work.Limits, now func() time.Time, logger *slog.Logger, opts ...postgres.Option,
) (*Set, error) {
	hosts, err := postgres.OpenHosts(ctx, url, append([]postgres.Option{postgres.WithLimits(limits)}, opts...)...)
	if err != nil {
		return nil, err
	}
	r := &Set{primary: primary, limits: limits, now: now, logger: logger}
	for _, host := range hosts {
		r.list = append(r.list, &replica{pool: host.Pool, name: host.Name})
	}
	return r, nil
}

// Close ends the connections.
func (r *Set) Close() {
	if r == nil {
		return
	}
	for _, standby := range r.list {
		standby.pool.Close()
	}
}

// Run checks the replicas about once a second until ctx ends.
func (r *Set) Run(ctx context.Context) {
	if r == nil {
		return
	}
	r.Check(ctx)
	work.Every(ctx, time.Second, func() { r.Check(ctx) })
}

// Check finds out which replicas are current, within the time limit of a check.
func (r *Set) Check(ctx context.Context) {
	r.checking.Lock()
	defer r.checking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.limits.ReplicaCheck)
	defer cancel()
	r.locatePrimary(ctx)
	var checks sync.WaitGroup
	for _, standby := range r.list {
		checks.Go(func() {
			var asOf time.Time
			err := work.Try(func() (err error) {
				asOf, err = r.asOf(ctx, standby)
				return err
			})
			if err != nil {
				r.leaveOut(standby, err)
			} else if standby.asOf.Swap(&asOf) == nil {
				r.logger.Info("a read replica is in use", "replica", standby.name)
			}
		})
	}
	checks.Wait()
}

// locatePrimary records the primary's position. If it cannot reach the primary, the replicas become too old.
func (r *Set) locatePrimary(ctx context.Context) {
	here := position{at: r.now()}
	r.seen = slices.DeleteFunc(r.seen, func(p position) bool { return here.at.Sub(p.at) > r.limits.ReplicaLag })
	// This is the position of the next record, after everything that is committed, with or without synchronous_commit. On a new
	// page it is after the header of the page, but a replica that has replayed everything is still before the header.
	former := r.mark
	if r.primary.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::bigint, database_mark()::text").Scan(&here.lsn, &r.mark) != nil {
		return
	}
	if r.mark == nil {
		_ = postgres.MarkHistory(ctx, r.primary) // for the next check
		return
	}
	const page, header = 8192, 40 // bytes of a page, and of its longest header
	if onPage := here.lsn % page; onPage <= header {
		here.lsn -= onPage
	}
	if n := len(r.seen); n > 0 && here.lsn < r.seen[n-1].lsn || former == nil || *former != *r.mark {
		r.seen = nil // another server has become the primary
	}
	r.seen = append(r.seen, here)
}

// asOf returns the instant of the newest rows of a replica, or an error if the replica must not be read.
func (r *Set) asOf(ctx context.Context, standby *replica) (time.Time, error) {
	var inRecovery bool
	var replayed *int64
	var mark *string
	err := standby.pool.QueryRow(ctx, "select pg_is_in_recovery(), (pg_last_wal_replay_lsn() - '0/0')::bigint, database_mark()::text").
		Scan(&inRecovery, &replayed, &mark)
	switch {
	case err != nil && ctx.Err() != nil:
		return time.Time{}, errors.New("no answer in time")
	case err != nil:
		return time.Time{}, err
	case !inRecovery || replayed == nil:
		return time.Time{}, errors.New("the server is no replica")
	case mark == nil || r.mark == nil || *mark != *r.mark:
		return time.Time{}, errors.New("its rows are not of the primary's history")
	}
	if n := len(r.seen); n > 0 && *replayed > r.seen[n-1].lsn { // the primary may have gone on, too
		ahead := false
		err := r.primary.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::bigint < $1", *replayed).Scan(&ahead)
		if err == nil && ahead {
			_ = postgres.MarkHistory(ctx, r.primary) // with a mark that the replica will not have
			return time.Time{}, errors.New("it is ahead of the primary, which has lost commits")
		}
	}
	for _, p := range slices.Backward(r.seen) {
		if p.lsn <= *replayed {
			return p.at, nil
		}
	}
	return time.Time{}, fmt.Errorf("it is more than %.0f s behind the primary", r.limits.ReplicaLag.Seconds())
}

// leaveOut stops reads from a replica until a check finds it current.
func (r *Set) leaveOut(standby *replica, cause error) {
	if standby.asOf.Swap(nil) != nil {
		r.logger.Warn("a read replica is left out", "replica", standby.name, "cause", postgres.Reason(cause))
	}
}

// pick returns the next replica that is current, or nil.
func (r *Set) pick() *replica {
	if r == nil {
		return nil
	}
	next := r.next.Add(1)
	for i := range uint64(len(r.list)) {
		if standby := r.list[(next+i)%uint64(len(r.list))]; r.current(standby) {
			return standby
		}
	}
	return nil
}

// current reports whether the rows of a replica are recent enough. They age between two checks.
func (r *Set) current(standby *replica) bool {
	asOf := standby.asOf.Load()
	return asOf != nil && r.now().Sub(*asOf) <= r.limits.ReplicaLag
}

// Read asks a current replica. If none is, or if it fails, Read asks the primary at once. A replica that is down is left out until a check
// finds it current. One that refuses or cancels a statement, for instance because the rows that it reads are being removed, is not down, nor is one
// that was not asked, because no place of its pool came free in time.
func Read[T any](ctx context.Context, primary *postgres.Pool, r *Set, ask func(context.Context, *postgres.Pool) (T, error)) (T, error) {
	standby := r.pick()
	if standby == nil {
		return ask(ctx, primary)
	}
	limited, cancel := context.WithTimeout(ctx, r.limits.Replica)
	answer, err := ask(limited, standby.pool)
	cancel()
	if err == nil || ctx.Err() != nil || errors.Is(err, work.ErrGone) { // the last: before the replica was asked
		r.answered.Add(1)
		return answer, err
	}
	r.failed.Add(1)
	var refused *pgconn.PgError
	if !errors.Is(err, work.ErrLate) && (!errors.As(err, &refused) || strings.HasPrefix(refused.Code, "57P")) { // it shuts down, or does not accept connections yet
		r.leaveOut(standby, err)
	}
	return ask(ctx, primary)
}

// Counts are the numbers of replicas that are current and that are left out, and of reads that a replica answered and that failed
// there, so that the primary answered.
type Counts struct {
	Used, LeftOut    int
	Answered, Failed uint64
}

// State is the state of one replica.
type State struct {
	Name string        // host:port
	Used bool          // it is current
	Lag  time.Duration // the maximum age of its rows, updated once a second; 0 if it is not used
}

// States returns the present states, in the order of the URL.
func (r *Set) States() []State {
	if r == nil {
		return nil
	}
	states := make([]State, len(r.list))
	for i, standby := range r.list {
		states[i].Name = standby.name
		if asOf := standby.asOf.Load(); asOf != nil && r.current(standby) {
			states[i].Used, states[i].Lag = true, max(0, r.now().Sub(*asOf))
		}
	}
	return states
}

// Counts returns the present states of the replicas, and their reads since the start.
func (r *Set) Counts() (counts Counts) {
	if r == nil {
		return counts
	}
	for _, standby := range r.list {
		if r.current(standby) {
			counts.Used++
		}
	}
	counts.LeftOut = len(r.list) - counts.Used
	counts.Answered, counts.Failed = r.answered.Load(), r.failed.Load()
	return counts
}
