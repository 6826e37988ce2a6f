package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
)

// bounds limit the cost of a page of a search and of a statement of a file, if few of many entries match the filter. A page that stops
// at a bound returns how far it came.
type bounds struct {
	slice int           // entries that one statement of a page reads
	page  int           // entries that a page reads
	time  time.Duration // of a page: old entries may have to come from the disk
	file  int           // entries that one statement of a file reads

	settle time.Duration // of the wait for transactions that may add entries to a list
}

// Page is one page of a search, or a part of it, in the order of the search.
type Page struct {
	Events []Event
	// Next is where the search continues; the zero value: it has ended. If the page has fewer events than its limit, the search stopped
	// at a bound, and Next.At is how far it came.
	Next page.Key
}

// List returns events that match the filter, oldest first: at most limit of them, 1 or more, those after a key. A page takes a bounded
// time even if hardly any event matches: it may have few events, or none, and a Next.
//
// An event is listed once no earlier event can be added any more. Callers that follow the log therefore miss no event whose transaction
// ends late.
func (l *Log) List(ctx context.Context, filter Filter, after page.Key, limit int) (Page, error) {
	settled, err := l.settled(ctx, filter.Until)
	if err != nil {
		return Page{}, fmt.Errorf("audit log: %w", err)
	}
	if filter.Until.IsZero() || settled.Before(filter.Until) {
		filter.Until = settled
	}
	return l.find(ctx, oldestFirst, filter, after, limit)
}

// Search is List from the newest event backwards: the events before a key, whose zero value is after the newest.
func (l *Log) Search(ctx context.Context, filter Filter, before page.Key, limit int) (Page, error) {
	return l.find(ctx, newestFirst, filter, before, limit)
}

// settlePause is the pause before settled asks again.
const settlePause = 10 * time.Millisecond

// settled returns the instant before which no event is added any more. It waits, but not for long, until that is the time of the call,
// or until if that is earlier.
func (l *Log) settled(ctx context.Context, until time.Time) (time.Time, error) {
	wanted, err := l.queries.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if !until.IsZero() && until.Before(wanted) {
		wanted = until
	}
	for end := time.Now().Add(l.bounds.settle); ; {
		settled, err := l.queries.Settled(ctx)
		switch {
		case err != nil:
			return time.Time{}, err
		case !settled.Before(wanted):
			return wanted, nil
		case time.Now().After(end):
			return settled, nil
		}
		if !work.Pause(ctx, settlePause) {
			return time.Time{}, ctx.Err()
		}
	}
}

func (l *Log) find(ctx context.Context, direction order, filter Filter, start page.Key, limit int) (events Page, err error) {
	start = direction.begin(filter, start)
	began := time.Now()
	err = l.inOrder(ctx, direction, func(read func(Filter, page.Key, int) (Page, error)) error {
		size := limit + 1 // one more tells whether there is another page
		for scanned := 0; ; size = min(4*size, l.bounds.slice) {
			if filter.isOneKind() { // all entries that it reads match
				size = limit - len(events.Events) + 1
			}
			part, err := read(filter, start, size)
			if err != nil {
				return err
			}
			scanned += size
			if room := limit - len(events.Events); len(part.Events) > room {
				part = Page{part.Events[:room], part.Events[room-1].Key()}
			}
			events.Events, events.Next = append(events.Events, part.Events...), part.Next
			start = part.Next
			if part.Next == (page.Key{}) || len(events.Events) == limit || scanned >= l.bounds.page || time.Since(began) > l.bounds.time {
				return nil
			}
		}
	})
	if err != nil {
		return Page{}, fmt.Errorf("audit log: %w", err)
	}
	return events, nil
}

// Most entries are of these actors and actions. The indexes of actors and actions leave them out, because a search by time finds them soon.
var (
	frequentActors  = []string{"user", "client"}
	frequentActions = []string{"user.created", "consent.allowed", "connection.authorized", "connection.disconnected", "connection.revoked"}
)

func (f Filter) hasRareActor() bool {
	return f.Actor != "" && !slices.Contains(frequentActors, f.Actor)
}
func (f Filter) hasRareAction() bool {
	return f.Action != "" && !slices.Contains(frequentActions, f.Action)
}

// isOneKind reports whether all entries of the index that is read match the filter. Times bound the part of the index.
func (f Filter) isOneKind() bool {
	kinds := 0
	connected := f.UserID != uuid.Nil || f.ClientID != uuid.Nil
	for _, given := range []bool{connected, f.Actor != "", f.Action != ""} {
		if given {
			kinds++
		}
	}
	if f.End != "" || f.Ends && (f.UserID != uuid.Nil || !f.Since.IsZero() || !f.Until.IsZero()) {
		kinds++
	}
	return kinds == 0 || kinds == 1 && (connected || f.hasRareActor() || f.hasRareAction())
}

// order of events.
type order bool

const (
	oldestFirst order = false
	newestFirst order = true
)

// endOfTime is after every event.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// begin returns the key after which events can match, for a page that begins after from. Ids begin with 1. A lapse is entered within a week
// (oauth.Server.TellLapses).
func (direction order) begin(f Filter, start page.Key) page.Key {
	entered := f.Until
	if f.Ends {
		entered = f.Until.AddDate(0, 0, 8)
	}
	switch {
	case direction == oldestFirst && start.At.Before(f.Since):
		return page.Key{At: f.Since}
	case direction == newestFirst && start == (page.Key{}):
		return direction.begin(f, start.OrNewest())
	case direction == newestFirst && !f.Until.IsZero() && !start.At.Before(entered):
		return page.Key{At: entered}
	}
	return start
}

// end returns the instant at which no more events match.
func (direction order) end(f Filter) time.Time {
	switch {
	case direction == newestFirst:
		return f.Since
	case f.Until.IsZero():
		return endOfTime
	}
	return f.Until
}

// inOrder calls act with a function that reads parts of the log, in one transaction. A part has at most size entries of the index of
// the filter's rarest kind, in an order from a key.
func (l *Log) inOrder(ctx context.Context, direction order, act func(read func(Filter, page.Key, int) (Page, error)) error) error {
	return postgres.InTx(ctx, l.pool, func(tx pgx.Tx) error {
		queries := auditdb.New(tx)
		if err := queries.ReadInOrder(ctx); err != nil {
			return err
		}
		return act(func(filter Filter, start page.Key, size int) (Page, error) {
			params := newScan(filter, start, direction.end(filter), size)
			if direction == oldestFirst {
				rows, err := queries.ScanForward(ctx, auditdb.ScanForwardParams(params))
				return newPart(rows, filter, size), err
			}
			rows, err := queries.ScanBackward(ctx, params)
			return newPart(rows, filter, size), err
		})
	})
}

// newScan selects the index to read: the entries of a connection or a user if the filter has one, else those of a client or the ends among
// them, a rare actor or a rare action, else all. PostgreSQL picks the entries that match the rest of the filter.
func newScan(filter Filter, start page.Key, to time.Time, size int) auditdb.ScanBackwardParams {
	params := auditdb.ScanBackwardParams{
		Slice: int32(size), FromAt: start.At, FromID: start.N, ToAt: to, //nolint:gosec // thousands
		ClientID: postgres.Null(filter.ClientID), Ended: postgres.Null(filter.End), Actor: postgres.Null(filter.Actor), Action: postgres.Null(filter.Action),
	}
	if filter.Ends && filter.End == "" {
		params.Ended = new("") // any
	}
	switch {
	case filter.UserID != uuid.Nil && params.ClientID != nil:
		params.ConnectedUser, params.ConnectedClient = &filter.UserID, params.ClientID
	case filter.UserID != uuid.Nil:
		params.OfUser = &filter.UserID
	case filter.Itself:
		params.OfUser, params.ClientID = params.ClientID, nil // the client is the subject
	case filter.Ends:
		params.EndedClient = params.ClientID
	case params.ClientID != nil:
		params.OfClient = params.ClientID
	case filter.hasRareActor():
		params.OfActor = params.Actor
	case filter.hasRareAction():
		params.OfAction = params.Action
	default:
		params.OfAll = true
	}
	return params
}

// newPart returns the matching events among the entries that were read, and where the next part begins.
func newPart[R auditdb.ScanBackwardRow | auditdb.ScanForwardRow](rows []R, filter Filter, size int) (part Page) {
	for _, each := range rows {
		row := auditdb.ScanBackwardRow(each)
		event := Event{
			ID: row.ID, At: row.At, Actor: row.Actor, Action: row.Action, Detail: withNames(row.Detail), UserID: postgres.Value(row.UserID),
			ClientID: postgres.Value(row.ClientID), ConnectionVersion: postgres.Value(row.ConnectionVersion),
			End: row.Ended,
		}
		if ended := event.EndedAt(); row.Found && (!filter.Ends || !ended.Before(filter.Since) && (filter.Until.IsZero() || ended.Before(filter.Until))) {
			part.Events = append(part.Events, event)
		}
		if int(row.Place) == size {
			part.Next = event.Key()
		}
	}
	return part
}

// withNames returns a detail with the names of scopes: most entries store a number. until 1.3.0: files of 1.0.0 have it, on lines of its own.
func withNames(detail json.RawMessage) json.RawMessage {
	number := strings.TrimPrefix(strings.Join(strings.Fields(string(detail)), ""), `{"scopes":`)
	scopes, err := strconv.ParseInt(strings.TrimSuffix(number, "}"), 10, 16)
	if err != nil {
		return detail
	}
	return json.RawMessage(`{"scopes": ` + strconv.Quote(scope.Set(scopes).String()) + "}")
}
