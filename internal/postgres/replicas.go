package postgres

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxLag is how old what a replica answers may be.
	maxLag = 5 * time.Second
	// checkReplicasEvery is how often the replicas are looked at, and checkLimit how long a look may take.
	checkReplicasEvery = time.Second
	checkLimit         = time.Second
	// replicaLimit is how long a read waits for a replica before it asks the primary.
	replicaLimit = 800 * time.Millisecond

	// A page of PostgreSQL's write-ahead log, and the longest of the headers that it can have, in bytes.
	walPage, walPageHeader = 8192, 40
)

// Replicas are streaming replicas of a primary, for reads that may be up to five seconds old. A nil *Replicas is none.
// It is safe for concurrent use.
//
// A replica is known by what it has: it is asked how far it has replayed, and is as of the latest instant at which the
// primary was no further. So a primary that rests makes nobody late, a replica that lost its primary is noticed, and no
// clock but this process's is compared with another.
type Replicas struct {
	primary *Pool
	list    []*replica
	now     func() time.Time
	logger  *slog.Logger
	turn    atomic.Uint64

	checking sync.Mutex
	seen     []position // of the primary, the latest last

	answered, failed atomic.Uint64
}

type replica struct {
	pool *Pool
	name string // host:port
	asOf atomic.Pointer[time.Time]
}

// position in the primary's write-ahead log: what was committed before the instant is not beyond it.
type position struct {
	at  time.Time
	lsn int64
}

// OpenReplicas takes the replicas at url, whose hosts are separated by commas: each host is one replica, not a balancer
// before several. It connects to none of them: nothing is read from a replica before [Replicas.Check] found it to be
// current, and one that is away at the start is no error. Close it.
func OpenReplicas(
	ctx context.Context, url string, primary *Pool, now func() time.Time, logger *slog.Logger, opts ...Option,
) (*Replicas, error) {
	all, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errURL
	}
	r := &Replicas{primary: primary, now: now, logger: logger}
	for _, hosts := range byHost(all.ConnConfig) {
		config := all.Copy()
		config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.TLSConfig = hosts[0].Host, hosts[0].Port, hosts[0].TLSConfig
		config.ConnConfig.Fallbacks = hosts[1:]
		prepareConfig(config, url, opts)
		pool, err := newPool(ctx, config)
		if err != nil {
			r.Close()
			return nil, err
		}
		pool.elsewhere = true
		name := net.JoinHostPort(hosts[0].Host, strconv.Itoa(int(hosts[0].Port)))
		r.list = append(r.list, &replica{pool: pool, name: name})
	}
	return r, nil
}

// byHost takes the ways to connect apart by server: one host has two where TLS is preferred and not required.
func byHost(config *pgx.ConnConfig) (hosts [][]*pgconn.FallbackConfig) {
	ways := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, way := range ways {
		i := slices.IndexFunc(hosts, func(host []*pgconn.FallbackConfig) bool {
			return host[0].Host == way.Host && host[0].Port == way.Port
		})
		if i < 0 {
			hosts = append(hosts, nil)
			i = len(hosts) - 1
		}
		hosts[i] = append(hosts[i], way)
	}
	return hosts
}

// Close ends the connections.
func (r *Replicas) Close() {
	if r == nil {
		return
	}
	for _, one := range r.list {
		one.pool.Close()
	}
}

// Run checks the replicas about once a second until ctx ends.
func (r *Replicas) Run(ctx context.Context) {
	if r == nil {
		return
	}
	ticker := time.NewTicker(checkReplicasEvery)
	defer ticker.Stop()
	for {
		r.Check(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Check finds out which replicas may be read from. It takes about a second at most.
func (r *Replicas) Check(ctx context.Context) {
	r.checking.Lock()
	defer r.checking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	r.look(ctx)
	var checks sync.WaitGroup
	for _, one := range r.list {
		checks.Go(func() { r.check(ctx, one) })
	}
	checks.Wait()
}

// look notes where the primary is. While it cannot be asked the replicas become too old by themselves.
func (r *Replicas) look(ctx context.Context) {
	here := position{at: r.now()}
	r.seen = slices.DeleteFunc(r.seen, func(p position) bool { return here.at.Sub(p.at) > maxLag })
	// Where the next record goes, which is beyond all that is committed, with or without synchronous_commit. On a new page
	// that is behind the page's header, and whoever replayed everything is before it.
	if r.primary.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&here.lsn) != nil {
		return
	}
	if onPage := here.lsn % walPage; onPage <= walPageHeader {
		here.lsn -= onPage
	}
	if n := len(r.seen); n > 0 && here.lsn < r.seen[n-1].lsn {
		r.seen = nil // another server is the primary now
	}
	r.seen = append(r.seen, here)
}

func (r *Replicas) check(ctx context.Context, one *replica) {
	var replays bool
	var replayed *int64
	err := one.pool.QueryRow(ctx, "select pg_is_in_recovery(), (pg_last_wal_replay_lsn() - '0/0')::bigint").Scan(&replays, &replayed)
	var asOf *time.Time
	switch {
	case ctx.Err() != nil && err != nil:
		err = errNoAnswer
	case err != nil:
	case !replays || replayed == nil:
		err = errNoReplica
	default:
		for _, p := range slices.Backward(r.seen) {
			if p.lsn <= *replayed {
				asOf = &p.at
				break
			}
		}
		if asOf == nil {
			err = errBehind
		}
	}
	before := one.asOf.Swap(asOf)
	switch {
	case before == nil && asOf != nil:
		r.logger.Info("a read replica is in use", "replica", one.name)
	case before != nil && asOf == nil:
		r.logger.Warn("a read replica is left out", "replica", one.name, "cause", reason(err))
	}
}

var (
	errNoAnswer  = errors.New("no answer in time")
	errNoReplica = errors.New("the server is no replica")
	errBehind    = errors.New("it is more than 5 s behind the primary")
)

// pick is a replica that may be read from, in turn, or nil.
func (r *Replicas) pick() *replica {
	if r == nil {
		return nil
	}
	turn := r.turn.Add(1)
	for i := range uint64(len(r.list)) {
		if one := r.list[(turn+i)%uint64(len(r.list))]; r.current(one) {
			return one
		}
	}
	return nil
}

// current tells whether what the replica answers is young enough: it ages between two checks.
func (r *Replicas) current(one *replica) bool {
	asOf := one.asOf.Load()
	return asOf != nil && r.now().Sub(*asOf) <= maxLag
}

// Read asks a replica that is current, and at once the primary when there is none or when it fails. A replica that
// cannot be reached is left out until a check finds it well.
func Read[T any](
	ctx context.Context, primary *Pool, r *Replicas, ask func(context.Context, *Pool) (T, error),
) (T, error) {
	one := r.pick()
	if one == nil {
		return ask(ctx, primary)
	}
	limited, cancel := context.WithTimeout(ctx, replicaLimit)
	answer, err := ask(limited, one.pool)
	cancel()
	if err == nil || ctx.Err() != nil {
		r.answered.Add(1)
		return answer, err
	}
	r.failed.Add(1)
	if isAway(err) && one.asOf.Swap(nil) != nil {
		r.logger.Warn("a read replica is left out", "replica", one.name, "cause", reason(err))
	}
	return ask(ctx, primary)
}

// isAway tells whether the server as a whole cannot be used (SQLSTATE class 57P: it shuts down, or does not accept
// connections yet). It may also cancel one statement, because what that reads is being removed, and be well.
func isAway(err error) bool {
	var refused *pgconn.PgError
	return !errors.As(err, &refused) || strings.HasPrefix(refused.Code, "57P")
}

// ReplicaCounts are the replicas that may be read from now and those that may not, and the reads that replicas answered
// and those that the primary had to answer for them.
type ReplicaCounts struct {
	Used, LeftOut    int
	Answered, Failed uint64
}

// Counts since the start.
func (r *Replicas) Counts() (counts ReplicaCounts) {
	if r == nil {
		return counts
	}
	for _, one := range r.list {
		if r.current(one) {
			counts.Used++
		} else {
			counts.LeftOut++
		}
	}
	counts.Answered, counts.Failed = r.answered.Load(), r.failed.Load()
	return counts
}
