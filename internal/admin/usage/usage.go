// Package usage counts the requests of each client by hour, operation and status, their durations, and how many were charged to the
// client's rate budget in each minute. It counts what happens on each day, to each client and in all. It also keeps the latest refused requests of
// each client with their reasons.
//
// # Invariants
//
//   - Counting never waits for the database. Counts are kept in memory and added to the database every few seconds and when
//     the service stops (TestRunWritesWhatIsLeft).
//   - The rows hold the sum over all servers (TestManyServersAtOnce).
//   - Memory is bounded. While the database is down, counts beyond the bound are dropped, and the log says so
//     (TestCountsWaitWithinBounds).
//   - Counts are kept for [retention] (TestSweep). They name a client, an operation, a status and an hour, or a client and a minute,
//     and never a user (TestServersAddUp, users.TestDeletedUserLeavesNothing).
//   - The figures of a day are what a count of all tables gives, by client and in all (TestDaysAreAFullCount). Several servers count and
//     fold at once (TestDaysOfManyServers), and a fold that fails leaves nothing (TestDaysWait). They are kept for [daysKept]
//     (TestDaysOfThePast).
//   - Latencies are sums by hour and operation. A server adds them once a minute, if there were requests (TestLatencies).
//   - An error consists of fixed words, and nothing that a caller sent (TestErrorsOfAClient). A frequent kind displaces no other, and what is not
//     kept is counted (TestFrequentErrors).
//   - A deleted user's grants go from the errors (users.TestDeletedUserLeavesNothing, TestGrantsOfErrors).
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
	maxRows = 20_000
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
	logger  *slog.Logger
	now     func() time.Time

	countTimeout time.Duration // of a count of the connections of one client
	exact        int64         // up to how many are counted

	rows      *work.Buffer[rowKey, row]
	latencies *work.Buffer[latencyKey, Latency]
	days      *work.Buffer[dayKey, Day]
	errors    map[bool]*work.Buffer[ErrorKind, ClientError] // by whether the client is authenticated

	unproven  unproven
	untrimmed map[bool]map[usagedb.TrimClientErrorsParams]int // rows of each kind since the last trim, by whether the client is authenticated
}

// row is a row that waits to be written.
type row struct {
	rowKey
	requests, charged int64
	durations         durations
}

type rowKey struct {
	clientID  uuid.UUID
	minute    int64 // Unix time
	operation string
	status    int
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
	u := &Usage{
		pool: pool, queries: usagedb.New(pool), logger: logger, now: now, countTimeout: limits.Count, exact: 10_000,
		errors:    map[bool]*work.Buffer[ErrorKind, ClientError]{},
		untrimmed: map[bool]map[usagedb.TrimClientErrorsParams]int{true: {}, false: {}},
	}
	u.rows = &work.Buffer[rowKey, row]{
		Name: "the counts of usage", Logger: logger, Most: maxRows, Batch: 1000, Every: flushEvery, Limit: limits.Flush,
		Key: func(r row) rowKey { return r.rowKey }, Merge: (*row).add, Write: u.writeRows,
	}
	u.days = &work.Buffer[dayKey, Day]{
		Name: "the counts of days", Logger: logger, Most: maxRows, Batch: maxRows, Every: flushEvery, Limit: limits.Flush,
		Key: func(d Day) dayKey { return dayKey{d.ClientID, d.Day} }, Merge: (*Day).add, Write: u.writeDays,
	}
	u.latencies = &work.Buffer[latencyKey, Latency]{
		Name: "the latencies", Logger: logger, Most: maxRows, Batch: maxRows, Every: latenciesEvery, Limit: limits.Flush,
		Key: func(l Latency) latencyKey { return latencyKey{l.Operation, l.Hour.Unix()} }, Merge: (*Latency).add, Write: u.writeLatencies,
	}
	for authenticated, most := range maxErrors {
		u.errors[authenticated] = &work.Buffer[ErrorKind, ClientError]{
			Name: "the errors of clients", Logger: logger, Most: most, Batch: most, Every: flushEvery, Limit: limits.Flush,
			Key: func(e ClientError) ErrorKind { return e.ErrorKind }, Merge: (*ClientError).add, Write: u.writeErrors,
		}
	}
	u.errors[false].Admit = u.unproven.admits
	return u
}

// Count counts a request. It never waits for the database.
func (u *Usage) Count(request Request) {
	minute := u.now().Truncate(time.Minute).Unix()
	counted := row{rowKey: rowKey{request.ClientID, minute, request.Operation, request.Status}, requests: 1}
	if request.Charged {
		counted.charged = 1
	}
	counted.durations[bucket(request.Duration)] = 1
	u.rows.Add(counted)
}

// Waiting returns the number of rows that wait to be written, and of requests since the start that were not counted because too
// many rows waited.
func (u *Usage) Waiting() (rows int, dropped uint64) {
	rows, dropped = u.rows.Waiting()
	_, happened := u.days.Waiting()
	return rows, dropped + happened
}

// Sweep deletes counts and errors that were older than [retention] at that time, days that were older than [daysKept], and what the latest errors
// have of deleted users. Any server may call it at any time.
func (u *Usage) Sweep(ctx context.Context, before time.Time) error {
	kept := before.Add(-retention)
	_, counts := u.queries.SweepUsage(ctx, kept.Add(-time.Hour)) // a report begins with a whole hour
	_, charged := u.queries.SweepCharged(ctx, kept.Add(-time.Hour))
	_, refused := u.queries.SweepClientErrors(ctx, kept)
	_, counted := u.queries.SweepClientErrorCounts(ctx, kept.UTC())
	_, days := u.queries.SweepDays(ctx, before.UTC().AddDate(0, 0, -daysKept))
	return postgres.Wrap("usage: sweep", errors.Join(counts, charged, refused, counted, days, u.forgetLateGrants(ctx, before)))
}

// Run writes counts and errors every few seconds until ctx ends, and then once more. Call it once, and end ctx when no more requests
// can arrive.
func (u *Usage) Run(ctx context.Context) {
	var buffers sync.WaitGroup
	for _, run := range []func(context.Context){u.rows.Run, u.days.Run, u.latencies.Run, u.errors[true].Run, u.errors[false].Run} {
		buffers.Go(func() { work.Restart(ctx, u.logger, "usage", run) })
	}
	buffers.Wait()
}

// writeRows adds the rows of a batch, or none. It sorts them, so that servers that write concurrently cannot deadlock. It leaves out those of
// clients that the database does not have: one that was restored may lack a client whose access tokens are still presented.
func (u *Usage) writeRows(ctx context.Context, batch []row) (int, error) {
	slices.SortFunc(batch, func(a, b row) int {
		return cmp.Or(bytes.Compare(a.clientID[:], b.clientID[:]), cmp.Compare(a.operation, b.operation),
			cmp.Compare(a.status, b.status), cmp.Compare(a.minute, b.minute))
	})
	hours := postgres.Map(batch, func(r row) usagedb.AddUsageParams {
		return usagedb.AddUsageParams{
			ClientID: r.clientID, Hour: time.Unix(r.minute, 0).UTC().Truncate(time.Hour), Operation: r.operation,
			Status: int16(r.status), Requests: r.requests, Durations: r.durations[:],
		}
	})
	slices.SortFunc(batch, func(a, b row) int {
		return cmp.Or(bytes.Compare(a.clientID[:], b.clientID[:]), cmp.Compare(a.minute, b.minute))
	})
	var minutes []usagedb.AddChargedParams
	for _, r := range batch {
		if r.charged > 0 {
			minute := usagedb.AddChargedParams{ClientID: r.clientID, Minute: time.Unix(r.minute, 0).UTC()}
			if n := len(minutes); n == 0 || minutes[n-1].ClientID != minute.ClientID || !minutes[n-1].Minute.Equal(minute.Minute) {
				minutes = append(minutes, minute)
			}
			minutes[len(minutes)-1].Charged += r.charged
		}
	}
	err := postgres.InTx(ctx, u.pool, func(tx pgx.Tx) error {
		queries := u.queries.WithTx(tx)
		return cmp.Or(exec(queries.AddUsage(ctx, hours)), exec(queries.AddCharged(ctx, minutes)))
	})
	if postgres.Is(err, postgres.ForeignKeyViolation) {
		clients, failure := u.queries.KnownClients(ctx, postgres.Map(batch, func(r row) uuid.UUID { return r.clientID }))
		known := slices.DeleteFunc(slices.Clone(batch), func(r row) bool { return !slices.Contains(clients, r.clientID) })
		if err = cmp.Or(failure, err); failure == nil && len(known) < len(batch) {
			return u.writeRows(ctx, known)
		}
	}
	return 0, err
}

// exec executes a batch of statements, and returns the first error. After a failed batch the transaction refuses the others.
func exec(batch interface{ Exec(each func(int, error)) }) (failure error) {
	batch.Exec(func(_ int, err error) { failure = cmp.Or(failure, err) })
	return failure
}
