// Package audit reads the audit log: what happened to clients, users and connections, who did it, and when. It records the exports of
// the log and failed sign-ins to the console, and deletes events at the end of the retention.
//
// The statement or transaction that makes a change writes its event (sql/oauth, sql/client, sql/account, sql/webhook, sql/activity,
// sql/operators). So no change is missing, and no rolled-back change is logged. No statement changes an event.
//
// # Invariants
//
//   - A refused change has no event (TestRefusedChangesAreNotNoted).
//   - An event names the operator who acted (TestActor).
//   - The log has each reader of a user's sign-ins (TestReadersOfSignIns).
//   - An event holds no address, no secret and no activity. It names a user by the random user id, also after the user was deleted, so
//     that the log stays complete until the retention ends (TestList).
//   - Events that anyone could cause without a credential are recorded once a minute for each network, in bounded memory
//     (TestFailedSignInsAreBounded).
//   - A page of a search takes a bounded time, even if hardly any event matches (TestSearchIsBounded).
//
// The end of a connection is logged once; refreshes are not logged.
package audit

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"sync"
	"time"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Log is the audit log of a database.
type Log struct {
	pool      *postgres.Pool
	queries   *auditdb.Queries
	retention time.Duration
	bounds    bounds

	failedSignIns, listings rare // by network, and by operator
}

// New returns the audit log of a migrated database. [Log.Sweep] deletes events older than retention; 0 keeps them forever.
func New(pool *postgres.Pool, limits work.Limits, retention time.Duration) *Log {
	return &Log{pool: pool, queries: auditdb.New(pool), retention: retention, bounds: bounds{
		slice: 1_000, page: 20_000, time: limits.Search, file: 5_000, settle: limits.Settle,
	}}
}

// Event is one entry of the log.
type Event struct {
	ID       int64 // orders events of one time, and identifies an event among those of its user or client
	At       time.Time
	Actor    string    // user, client, system, operator, or the name of an operator's token
	Action   string    // the object and the act, such as connection.revoked
	ClientID uuid.UUID // uuid.Nil: the event concerns no client
	UserID   uuid.UUID // uuid.Nil: the event concerns no user; it stays after the user is deleted
	// ConnectionVersion is the version after the act. 0: the event concerns no connection.
	ConnectionVersion int64
	Detail            json.RawMessage // an object
	End               string          // one of [Ends], if the event is the end of a connection, or of its credentials; otherwise empty
}

// Ends are the reasons for which connections end: those of the webhook connection.revoked (specification 6), and those that it does not tell
// apart. The SQL function connection_end finds that of an event.
var Ends = []string{
	"user_disconnected", "client_disconnected", "refresh_token_revoked", "refresh_token_replayed", "lapsed", "account_deleted",
	"operator_disconnected", "operator_revoked", "client_offboarded",
}

// EndedAt is the time of an end. A lapse is entered within the hour after it.
func (e Event) EndedAt() time.Time {
	var detail struct {
		LapsedAt time.Time `json:"lapsed_at"`
	}
	if e.End != "lapsed" || json.Unmarshal(e.Detail, &detail) != nil || detail.LapsedAt.IsZero() {
		return e.At
	}
	return detail.LapsedAt
}

// EndedVersion is the version of the connection whose credentials an end has ended.
func (e Event) EndedVersion() int64 {
	if e.Action == "connection.disconnected" {
		return e.ConnectionVersion - 1
	}
	return e.ConnectionVersion
}

// Key returns the event's place in the log.
func (e Event) Key() page.Key { return page.Key{At: e.At, N: e.ID} }

// Filter narrows a list by the fields that are not zero.
type Filter struct {
	ClientID uuid.UUID
	UserID   uuid.UUID
	Since    time.Time // this instant and later
	Until    time.Time // before this instant
	Actor    string
	Action   string

	Ends bool   // only ends of connections, Since and Until of the ends themselves; with a client
	End  string // only ends for this reason, one of [Ends]

	// Itself narrows a search to events of the client itself, without those of its connections.
	Itself bool
}

// Sweep deletes events whose retention was over at that time.
func (l *Log) Sweep(ctx context.Context, before time.Time) error {
	if l.retention == 0 {
		return nil
	}
	params := auditdb.SweepAuditLogParams{Before: before.Add(-l.retention), MaxRows: 10_000} // so that the statement ends within its timeout
	return postgres.Wrap("audit log: sweep", postgres.Sweep(ctx, l.queries.SweepAuditLog, params))
}

// rarely is the shortest time between two equal entries of kinds that could otherwise flood the log.
const rarely = time.Minute

// maxRare bounds the networks and operators that are remembered for it.
const maxRare = 1000

// RecordFailedSignIn records that a sign-in to the console from a network failed, at most once a minute for each network. The entry has
// no address.
func (l *Log) RecordFailedSignIn(ctx context.Context, now time.Time, network string) error {
	return l.failedSignIns.once(network, now, func() error {
		return l.record(ctx, uuid.Nil, work.System, "console.sign_in_failed", map[string]string{})
	})
}

// RecordExport records that the operator of ctx exports the events that match a filter. by names the interface.
func (l *Log) RecordExport(ctx context.Context, operator string, filter Filter) error {
	detail := map[string]string{"by": operator}
	add := func(name, value string, given bool) {
		if given {
			detail[name] = value
		}
	}
	add("since", filter.Since.UTC().Format(time.RFC3339Nano), !filter.Since.IsZero())
	add("until", filter.Until.UTC().Format(time.RFC3339Nano), !filter.Until.IsZero())
	add("user_id", filter.UserID.String(), filter.UserID != uuid.Nil)
	add("client_id", filter.ClientID.String(), filter.ClientID != uuid.Nil)
	add("actor", filter.Actor, word.MatchString(filter.Actor))
	add("action", filter.Action, word.MatchString(filter.Action))
	return l.record(ctx, uuid.Nil, work.Actor(ctx), "audit.exported", detail)
}

// RecordDismissal records that the operator of ctx dismisses a server that is lost.
func (l *Log) RecordDismissal(ctx context.Context, server uuid.UUID) error {
	return l.record(ctx, uuid.Nil, work.Actor(ctx), "server.dismissed", map[string]string{"server": server.String()})
}

// RecordListing is RecordExport for the pages of a list, at most once a minute for each operator.
func (l *Log) RecordListing(ctx context.Context, now time.Time, operator string) error {
	return l.listings.once(work.Actor(ctx), now, func() error {
		return l.RecordExport(ctx, operator, Filter{})
	})
}

// RecordSignIns records that the operator of ctx reads the log of sign-ins of a user, or of an address that no user has: uuid.Nil. It does so at most
// once a minute for each operator and user, by the entries of all servers, so that no user is missing. by names the interface.
func (l *Log) RecordSignIns(ctx context.Context, by string, user uuid.UUID) error {
	return l.recordReading(ctx, by, user, "sign_ins.viewed")
}

// RecordCopy is [Log.RecordSignIns] for a copy of all data of a user.
func (l *Log) RecordCopy(ctx context.Context, by string, user uuid.UUID) error {
	return l.recordReading(ctx, by, user, "user.exported")
}

func (l *Log) recordReading(ctx context.Context, by string, user uuid.UUID, action string) error {
	known, err := l.queries.WasEntered(ctx, auditdb.WasEnteredParams{Subject: user, Actor: work.Actor(ctx), Action: action})
	if err != nil || known {
		return postgres.Wrap("audit log: record", err)
	}
	return l.record(ctx, user, work.Actor(ctx), action, map[string]string{"by": by})
}

// record adds an entry about a user; uuid.Nil: about none.
func (l *Log) record(ctx context.Context, user uuid.UUID, actor, action string, detail map[string]string) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	entry := auditdb.InsertEntryParams{Subject: user, Actor: actor, Action: action, Detail: text}
	if user != uuid.Nil {
		entry.UserID = &user
	}
	return postgres.Wrap("audit log: record", pgx.BeginFunc(ctx, postgres.Noting{Pool: l.pool}, func(tx pgx.Tx) error {
		return auditdb.New(tx).InsertEntry(ctx, entry)
	}))
}

// word matches actors and actions. Another text in a filter may be an address.
var word = regexp.MustCompile(`^([a-z]+:)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// rare remembers, by key, what was done within the last minute. Its zero value is empty.
type rare struct {
	mu   sync.Mutex
	done map[string]time.Time
}

// once calls act unless it did so for the key within a minute. If there are too many keys within a minute, the rest share one. A failed
// act does not count.
func (r *rare) once(key string, now time.Time, act func() error) error {
	r.mu.Lock()
	if r.done == nil {
		r.done = map[string]time.Time{}
	}
	maps.DeleteFunc(r.done, func(_ string, at time.Time) bool { return now.Sub(at).Abs() >= rarely }) // the clock may have been set back
	_, known := r.done[key]
	if !known && len(r.done) >= maxRare {
		key = ""
		_, known = r.done[key]
	}
	if !known {
		r.done[key] = now
	}
	r.mu.Unlock()
	if known {
		return nil
	}
	err := act()
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.done, key)
	}
	return err
}
