package usage

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

// keptErrors is the number of errors of a client and of one kind that the database keeps: of authenticated requests, and of others that named
// it. A kind is an operation with a code: the service has some sixty, so that what a client has is bounded, and a frequent refusal displaces no
// rare one.
var keptErrors = map[bool]int32{true: 300, false: 50}

// trimAfter is how many rows of a client and of one kind a server adds before it deletes those beyond the bound, so that a refusal costs no more
// than a row: of authenticated requests, whose clients exist and so are few, and of others.
var trimAfter = map[bool]int{true: 30, false: 1}

// maxErrors bounds the errors that wait in memory, and so those written at once: of authenticated requests, and of others. All
// texts are the service's own, so that a client has at most some hundred different errors, however often it is refused.
var maxErrors = map[bool]int{true: 2000, false: 200}

// ClientError is a refused request of a client, or several equal ones, in fixed words of the service (package refusal).
type ClientError struct {
	ErrorKind

	At         time.Time   // of the last request
	Requests   int64       // the number of equal requests within some seconds
	RequestIDs []uuid.UUID // their X-Request-ID, the last one last: at most [mostRequestIDs]
	GrantIDs   []uuid.UUID // of the connections whose credentials they had, without those of deleted users: at most [mostGrantIDs]

	id      uuid.UUID    // nil until it is stored
	network netip.Prefix // of the first of them, until they are stored
}

// ErrorKind is what equal errors have in common.
type ErrorKind struct {
	ClientID uuid.UUID
	// Authenticated reports that the client proved its identity. Other requests are kept apart, because anyone can name any client.
	Authenticated           bool
	Operation, Code, Reason string
	Status                  int // of HTTP, 400 and up
}

// These bound what is kept of equal errors: the request ids, and the grants, of which a partner's nightly run may have some hundred.
const (
	mostRequestIDs = 20
	mostGrantIDs   = 500
)

// Key returns the error's place in a list.
func (e ClientError) Key() page.Key { return page.Key{At: e.At, ID: e.id} }

const (
	// unprovenErrors bounds the different errors without authentication that a network can add to a client in an hour, on each server.
	// A stranger can displace only so many of those that are kept of a kind.
	unprovenErrors = 10
	// unprovenOfNetwork is the same for all clients together, existing or not. It is half of maxErrors: one network cannot fill what
	// waits.
	unprovenOfNetwork = 100
	// maxUnproven bounds the pairs of client and network that are counted. Beyond it, errors without authentication are dropped.
	maxUnproven = 10_000
)

// unproven counts the errors without authentication within an hour.
type unproven struct {
	hour   time.Time
	errors map[unprovenKey]int
}

type unprovenKey struct {
	clientID uuid.UUID // uuid.Nil: any
	network  netip.Prefix
}

// AddError adds the error of one request from a network. grantID is that of the connection whose credential the request had; uuid.Nil: of none.
// A refusal by the rate policy is the client's own: it keeps none, because a busy client has thousands. It never waits for the database, and drops
// errors beyond the bounds.
func (u *Usage) AddError(kind ErrorKind, requestID, grantID uuid.UUID, network netip.Prefix) {
	added := ClientError{ErrorKind: kind, At: u.now(), Requests: 1, RequestIDs: []uuid.UUID{requestID}, GrantIDs: []uuid.UUID{}, network: network}
	if grantID != uuid.Nil && kind.Status != 429 {
		added.GrantIDs = append(added.GrantIDs, grantID)
	}
	u.errors[kind.Authenticated].Add(added)
}

// admits reports whether one more error without authentication may be added, and counts it.
func (u *unproven) admits(e ClientError) bool {
	if hour := e.At.Truncate(time.Hour); u.errors == nil || !hour.Equal(u.hour) {
		u.hour, u.errors = hour, map[unprovenKey]int{}
	}
	key, ofNetwork := unprovenKey{e.ClientID, e.network}, unprovenKey{network: e.network}
	before, known := u.errors[key]
	if before == unprovenErrors || u.errors[ofNetwork] == unprovenOfNetwork || !known && len(u.errors) >= maxUnproven {
		return false
	}
	u.errors[key]++
	u.errors[ofNetwork]++
	return true
}

// add adds the equal errors of other requests.
func (e *ClientError) add(other ClientError) {
	e.Requests += other.Requests
	if other.At.After(e.At) {
		e.At = other.At
	}
	e.RequestIDs = append(e.RequestIDs, other.RequestIDs...)
	e.RequestIDs = e.RequestIDs[max(0, len(e.RequestIDs)-mostRequestIDs):]
	for _, grant := range other.GrantIDs {
		if len(e.GrantIDs) < mostGrantIDs && !slices.Contains(e.GrantIDs, grant) {
			e.GrantIDs = append(e.GrantIDs, grant)
		}
	}
}

// writeErrors adds all errors or none, and keeps the latest of each client and kind. It sorts them, so that servers that write concurrently
// cannot deadlock.
func (u *Usage) writeErrors(ctx context.Context, batch []ClientError) (int, error) {
	var added []usagedb.AddClientErrorParams
	var trimmed []usagedb.TrimClientErrorsParams
	for _, e := range batch {
		added = append(added, usagedb.AddClientErrorParams{
			ClientID: e.ClientID, Authenticated: e.Authenticated, At: e.At, Operation: e.Operation,
			Status: int16(e.Status), Code: e.Code, Reason: e.Reason, Requests: e.Requests, RequestIds: e.RequestIDs, GrantIds: e.GrantIDs,
		})
		kind := usagedb.TrimClientErrorsParams{
			ClientID: e.ClientID, Authenticated: e.Authenticated, Operation: e.Operation, Status: int16(e.Status), Code: e.Code,
			Kept: keptErrors[e.Authenticated],
		}
		counts := u.untrimmed[e.Authenticated]
		if counts[kind]++; counts[kind] >= trimAfter[e.Authenticated] {
			delete(counts, kind)
			trimmed = append(trimmed, kind)
		}
	}
	slices.SortFunc(added, func(a, b usagedb.AddClientErrorParams) int { return bytes.Compare(a.ClientID[:], b.ClientID[:]) })
	slices.SortFunc(trimmed, func(a, b usagedb.TrimClientErrorsParams) int {
		return cmp.Or(bytes.Compare(a.ClientID[:], b.ClientID[:]), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status),
			cmp.Compare(a.Code, b.Code))
	})
	trimmed = slices.Compact(trimmed)
	return 0, postgres.InTx(ctx, u.pool, func(tx pgx.Tx) error {
		queries := u.queries.WithTx(tx)
		return cmp.Or(exec(queries.AddClientError(ctx, added)), exec(queries.TrimClientErrors(ctx, trimmed)))
	})
}

// ErrorFilter narrows a list of refused requests by the fields that are not zero.
type ErrorFilter struct {
	Operation, Code string
	Status          int // of HTTP
	RequestID       uuid.UUID
	GrantID         uuid.UUID
}

// ErrorCount says how many requests of a client were refused within [retention] in one way, and since when all of them are listed one by one.
type ErrorCount struct {
	Authenticated    bool
	Operation, Code  string
	Status           int   // of HTTP
	Requests, Listed int64 // all of them, and those that [Usage.Errors] lists
	LastAt           time.Time
	ListedSince      time.Time // the earliest that is listed; zero: none is missing
}

// ErrorCounts counts the refused requests of a client by kind: those of the client first, ordered by operation, status and code.
// Error: refusal.ErrClientNotFound.
func (u *Usage) ErrorCounts(ctx context.Context, clientID uuid.UUID) ([]ErrorCount, error) {
	if err := u.knows(ctx, clientID); err != nil {
		return nil, err
	}
	rows, err := u.queries.CountClientErrors(ctx, clientID)
	return postgres.Map(rows, func(row usagedb.CountClientErrorsRow) ErrorCount {
		count := ErrorCount{
			Authenticated: row.Authenticated, Operation: row.Operation, Code: row.Code, Status: int(row.Status), Requests: row.Requests,
			Listed: row.Listed, LastAt: row.LastAt,
		}
		if row.Listed < row.Requests {
			count.ListedSince = row.ListedSince
		}
		return count
	}), postgres.Wrap("usage: errors", err)
}

// knows returns refusal.ErrClientNotFound for an unknown client.
func (u *Usage) knows(ctx context.Context, clientID uuid.UUID) error {
	if known, err := u.queries.KnownClients(ctx, []uuid.UUID{clientID}); err != nil || len(known) == 0 {
		return fmt.Errorf("usage: errors: %w", cmp.Or(err, refusal.ErrClientNotFound))
	}
	return nil
}

// Errors lists the latest refused requests of a client that a filter lets through, newest first: at most limit of them, those after a key.
// Error: refusal.ErrClientNotFound.
func (u *Usage) Errors(ctx context.Context, clientID uuid.UUID, filter ErrorFilter, after page.Key, limit int) ([]ClientError, error) {
	if err := u.knows(ctx, clientID); err != nil {
		return nil, err
	}
	after = after.OrNewest()
	query := usagedb.ListClientErrorsParams{
		ClientID: clientID, BeforeAt: after.At, BeforeID: after.ID, MaxRows: int32(limit),
		Operation: filter.Operation, Code: filter.Code, Status: int32(filter.Status), //nolint:gosec // of HTTP
		RequestID: postgres.Null(filter.RequestID), GrantID: postgres.Null(filter.GrantID),
	}
	rows, err := u.queries.ListClientErrors(ctx, query)
	return postgres.Map(rows, func(row usagedb.ClientError) ClientError {
		kind := ErrorKind{row.ClientID, row.Authenticated, row.Operation, row.Code, row.Reason, int(row.Status)}
		return ClientError{ErrorKind: kind, At: row.At, Requests: row.Requests, RequestIDs: row.RequestIds, GrantIDs: row.GrantIds, id: row.ErrorID}
	}), postgres.Wrap("usage: errors", err)
}

// Forgetting returns a function that ends the connections of a user, as end does, within the transaction that deletes the user, and takes their
// grants from refused requests. [Usage.Sweep] takes those that a server adds a moment later.
func Forgetting(end func(context.Context, pgx.Tx, uuid.UUID) (int64, error)) func(context.Context, pgx.Tx, uuid.UUID) (int64, error) {
	return func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error) {
		ended, failure := end(ctx, tx, userID)
		queries := usagedb.New(tx)
		grants, err := queries.GrantsOfUser(ctx, userID)
		if err == nil && len(grants) > 0 {
			err = queries.ForgetGrants(ctx, grants)
		}
		return ended, cmp.Or(failure, postgres.Wrap("usage: errors", err))
	}
}

// lateGrants is how long after a request its error may be added.
const lateGrants = time.Hour

// forgetLateGrants takes the grants of deleted users from errors of the last hour.
func (u *Usage) forgetLateGrants(ctx context.Context, now time.Time) error {
	latest, err := u.queries.LatestGrants(ctx, now.Add(-lateGrants))
	if err != nil || len(latest) == 0 {
		return err
	}
	known, err := u.queries.KnownGrants(ctx, latest)
	late := slices.DeleteFunc(latest, func(grant uuid.UUID) bool { // there may be hundreds of thousands
		_, isKnown := slices.BinarySearchFunc(known, grant, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		return isKnown
	})
	if err != nil || len(late) == 0 {
		return err
	}
	return u.queries.ForgetGrants(ctx, late)
}
