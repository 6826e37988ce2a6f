package usage

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

// keptErrors is the number of errors of a client that the database keeps: of authenticated requests, and of others that named it.
var keptErrors = map[bool]int32{true: 1000, false: 100}

// maxErrors bounds the errors that wait in memory, and thereby those written at once: of authenticated requests, and of others. All
// texts are the service's own, so that a client has at most some hundred different errors, however often it is refused.
var maxErrors = map[bool]int{true: 2000, false: 200}

// ClientError is a refused request of a client, or several equal ones, in fixed words of the service (package refusal).
type ClientError struct {
	ErrorKind

	At         time.Time   // of the last request
	Requests   int64       // the number of equal requests within some seconds
	RequestIDs []uuid.UUID // their X-Request-ID, the last one last: at most [mostRequestIDs]

	id uuid.UUID // nil until it is stored
}

// ErrorKind is what equal errors have in common.
type ErrorKind struct {
	ClientID uuid.UUID
	// Authenticated reports that the client proved its identity. Other requests are kept apart, because anyone can name any client.
	Authenticated           bool
	Operation, Code, Reason string
	Status                  int // of HTTP, 400 and up
}

// mostRequestIDs bounds the request ids that are kept of equal errors.
const mostRequestIDs = 20

// Key returns the error's place in a list.
func (e ClientError) Key() page.Key { return page.Key{At: e.At, ID: e.id} }

const (
	// unprovenErrors bounds the different errors without authentication that a network can add to a client in an hour, on each server.
	// A stranger can displace only so many of the hundred that are kept.
	unprovenErrors = 10
	// unprovenOfNetwork is the same for all clients together, existing or not. It is half of maxErrors: one network cannot fill what
	// waits.
	unprovenOfNetwork = 100
	// maxUnproven bounds the pairs of client and network that are counted. Beyond it, errors without authentication are dropped.
	maxUnproven = 10_000
)

// clientErrors hold the errors that wait to be written. Equal ones are counted together.
type clientErrors struct {
	mu      sync.Mutex
	waiting map[bool]map[ErrorKind]ClientError // by whether the client is authenticated, and by kind

	hour     time.Time
	unproven map[unprovenKey]int // errors without authentication of that hour
}

type unprovenKey struct {
	clientID uuid.UUID // uuid.Nil: any
	from     netip.Prefix
}

// AddError adds the error of one request from a network. It never waits for the database, and drops errors beyond the bounds.
func (u *Usage) AddError(kind ErrorKind, requestID uuid.UUID, from netip.Prefix) {
	now, e := u.now(), &u.errors
	e.mu.Lock()
	defer e.mu.Unlock()
	_, waits := e.waiting[kind.Authenticated][kind] // then one more needs no row
	if kind.Authenticated || waits || e.admits(kind.ClientID, from, now) {
		e.add(ClientError{ErrorKind: kind, At: now, Requests: 1, RequestIDs: []uuid.UUID{requestID}})
	}
}

// admits reports whether one more error without authentication may be added, and counts it.
func (e *clientErrors) admits(clientID uuid.UUID, from netip.Prefix, now time.Time) bool {
	if hour := now.Truncate(time.Hour); e.unproven == nil || !hour.Equal(e.hour) {
		e.hour, e.unproven = hour, map[unprovenKey]int{}
	}
	key, ofNetwork := unprovenKey{clientID, from}, unprovenKey{from: from}
	before, known := e.unproven[key]
	if before == unprovenErrors || e.unproven[ofNetwork] == unprovenOfNetwork || !known && len(e.unproven) >= maxUnproven {
		return false
	}
	e.unproven[key]++
	e.unproven[ofNetwork]++
	return true
}

// add requires e.mu.
func (e *clientErrors) add(one ClientError) {
	waiting := e.waiting[one.Authenticated]
	before, known := waiting[one.ErrorKind]
	if !known && len(waiting) >= maxErrors[one.Authenticated] {
		return
	}
	one.Requests += before.Requests
	if one.At.Before(before.At) {
		one.At = before.At
	}
	one.RequestIDs = append(before.RequestIDs, one.RequestIDs...)
	one.RequestIDs = one.RequestIDs[max(0, len(one.RequestIDs)-mostRequestIDs):]
	waiting[one.ErrorKind] = one
}

func (e *clientErrors) take(authenticated bool) map[ErrorKind]ClientError {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.waiting[authenticated]
	e.waiting[authenticated] = map[ErrorKind]ClientError{}
	return taken
}

// putBack keeps errors that could not be written.
func (e *clientErrors) putBack(taken map[ErrorKind]ClientError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range taken {
		e.add(one)
	}
}

// flushErrors writes the waiting errors: those of authenticated requests, then the others. If that fails they wait for the next time.
func (u *Usage) flushErrors(ctx context.Context) {
	for _, authenticated := range []bool{true, false} {
		taken := u.errors.take(authenticated)
		if len(taken) == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, u.flushLimit)
		err := u.addErrors(limited, taken, keptErrors[authenticated])
		cancel()
		if err != nil {
			u.logger.ErrorContext(ctx, "the errors of clients wait", "rows", len(taken), "cause", err)
			u.errors.putBack(taken)
		}
	}
}

// addErrors adds all errors or none, and keeps the latest of each client. It sorts them by client, so that servers that write
// concurrently cannot deadlock.
func (u *Usage) addErrors(ctx context.Context, all map[ErrorKind]ClientError, kept int32) error {
	var added []usagedb.AddClientErrorParams
	var trimmed []usagedb.TrimClientErrorsParams
	for _, one := range all {
		added = append(added, usagedb.AddClientErrorParams{
			ClientID: one.ClientID, Authenticated: one.Authenticated, At: one.At, Operation: one.Operation,
			Status: int16(one.Status), Code: one.Code, Reason: one.Reason, Requests: one.Requests, RequestIds: one.RequestIDs,
		})
		trimmed = append(trimmed, usagedb.TrimClientErrorsParams{ClientID: one.ClientID, Authenticated: one.Authenticated, Kept: kept})
	}
	slices.SortFunc(added, func(a, b usagedb.AddClientErrorParams) int { return bytes.Compare(a.ClientID[:], b.ClientID[:]) })
	slices.SortFunc(trimmed, func(a, b usagedb.TrimClientErrorsParams) int { return bytes.Compare(a.ClientID[:], b.ClientID[:]) })
	trimmed = slices.Compact(trimmed)
	return postgres.InTx(ctx, u.pool, func(tx pgx.Tx) error {
		var failure error
		collect := func(_ int, err error) { failure = cmp.Or(failure, err) }
		queries := u.queries.WithTx(tx)
		queries.AddClientError(ctx, added).Exec(collect)
		if failure == nil {
			queries.TrimClientErrors(ctx, trimmed).Exec(collect)
		}
		return failure
	})
}

// ErrorFilter narrows a list of refused requests by the fields that are not zero.
type ErrorFilter struct {
	Operation string
	Status    int // of HTTP
	RequestID uuid.UUID
}

// Errors lists the latest refused requests of a client, newest first: at most limit of them, those after a key. Errors:
// refusal.ErrClientNotFound.
func (u *Usage) Errors(ctx context.Context, clientID uuid.UUID, after page.Key, limit int) ([]ClientError, error) {
	return u.FindErrors(ctx, clientID, ErrorFilter{}, after, limit)
}

// FindErrors is [Usage.Errors] with a filter.
func (u *Usage) FindErrors(ctx context.Context, clientID uuid.UUID, filter ErrorFilter, after page.Key, limit int) ([]ClientError, error) {
	if known, err := u.queries.ClientExists(ctx, clientID); err != nil || !known {
		return nil, fmt.Errorf("usage: errors: %w", cmp.Or(err, refusal.ErrClientNotFound))
	}
	after = after.OrNewest()
	query := usagedb.ListClientErrorsParams{
		ClientID: clientID, BeforeAt: after.At, BeforeID: after.ID, MaxRows: int32(limit),
		Operation: filter.Operation, Status: int32(filter.Status), //nolint:gosec // of HTTP
	}
	if filter.RequestID != uuid.Nil {
		query.RequestID = &filter.RequestID
	}
	rows, err := u.queries.ListClientErrors(ctx, query)
	list := make([]ClientError, len(rows))
	for i, row := range rows {
		kind := ErrorKind{row.ClientID, row.Authenticated, row.Operation, row.Code, row.Reason, int(row.Status)}
		list[i] = ClientError{kind, row.At, row.Requests, row.RequestIds, row.ErrorID}
	}
	return list, postgres.Wrap("usage: errors", err)
}
