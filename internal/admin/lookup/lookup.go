// Package lookup tells what an id, an address or a name belongs to, so that one search box and one command lead to everything that an
// operator may have in hand. It also writes copies of users' data. Its statements read the tables of all domains, and write nothing.
//
// # Invariants
//
//   - A text finds what it names, whatever its kind, and nothing else (TestFind).
//   - Each look-up reads one index, however much is stored, except a client's name (operator.TestListsUseIndexes).
//   - A copy has the rows of each table that has something about its user, or users.TestCopyHasEveryTable says why not. It has nothing of
//     another user, and no part of a secret (users.TestCopyOfAUser).
//   - A copy is of one instant, whatever is written meanwhile, and few of its rows are in memory at a time (TestCopyIsOfOneInstant).
//   - Readers of copies hold at most two connections of a server, however slowly they read (TestSlowCopies).
//
// The package never logs a text: it may be an address.
package lookup

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	lookupdb "connect-svc/gen/db/lookup"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

// most bounds the clients that a part of a name finds.
const most = 20

// Kind is what was found.
type Kind string

// The kinds.
const (
	User       Kind = "user"
	Connection Kind = "connection"
	Client     Kind = "client"
	Request    Kind = "refused_request"
	Event      Kind = "webhook_event"
)

// Found is something that a text names.
type Found struct {
	Kind     Kind
	UserID   uuid.UUID // uuid.Nil: it is about no user
	ClientID uuid.UUID // uuid.Nil: it is about no client
	EventID  uuid.UUID // of a webhook event
	Name     string    // the address of a user; otherwise the name of the client
	At       time.Time // of a refused request or an event; otherwise zero
	Detail   string    // why a request was refused, or the type and the state of an event
}

// Finder finds things in a database.
type Finder struct {
	pool    *postgres.Pool
	queries *lookupdb.Queries
	copies  *work.Queue
}

// New returns the finder of a migrated database.
func New(pool *postgres.Pool) Finder {
	return Finder{pool, lookupdb.New(pool), work.NewQueue(copiesAtOnce, work.Unbounded)}
}

// hashOfGrant is the form of a hash of a grant id in the log.
var hashOfGrant = regexp.MustCompile("^[0-9a-f]{16}$")

// Find returns what a text names: a user by address or id, a connection by its grant id or the hash of it in the log, a client by id or name,
// a refused request by its X-Request-ID, and a webhook event by its webhook-id. If no client has the name, it returns those whose names
// contain it, at most 20.
func (f Finder) Find(ctx context.Context, query string) (matches []Found, err error) {
	query = strings.TrimSpace(query)
	if query == "" {
		return nil, nil
	}
	if id, err := uuid.Parse(strings.TrimPrefix(query, "msg_")); err == nil {
		matches, err := f.byID(ctx, id)
		return matches, postgres.Wrap("lookup", err)
	}
	if text.IsAddress(query) {
		users, err := f.queries.FindUserOfAddress(ctx, text.AddressKey(query))
		if err != nil {
			return nil, postgres.Wrap("lookup", err)
		}
		for _, row := range users {
			matches = append(matches, Found{Kind: User, UserID: row.UserID, Name: row.Email})
		}
	}
	if hashOfGrant.MatchString(query) {
		hash, _ := hex.DecodeString(query) // it has that form
		grants, err := f.queries.FindGrantOfHash(ctx, hash)
		if err != nil {
			return nil, postgres.Wrap("lookup", err)
		}
		for _, row := range grants {
			matches = append(matches, Found{Kind: Connection, UserID: row.UserID, ClientID: row.ClientID, Name: row.Name})
		}
	}
	all, err := f.queries.ListClientNames(ctx)
	named := clientsNamed(all, query)
	if len(named) == 0 && len(matches) == 0 {
		key := text.Fold(query)
		named = slices.DeleteFunc(all, func(row lookupdb.ListClientNamesRow) bool { return !strings.Contains(text.Fold(row.Name), key) })
	}
	for _, row := range named[:min(len(named), most)] {
		matches = append(matches, Found{Kind: Client, ClientID: row.ClientID, Name: row.Name})
	}
	return matches, postgres.Wrap("lookup", err)
}

// ErrSeveral means that several clients have a name.
var ErrSeveral = errors.New("several clients have this name")

// ClientNamed returns the client with a name, in any case. Errors: refusal.ErrClientNotFound, ErrSeveral.
func (f Finder) ClientNamed(ctx context.Context, name string) (uuid.UUID, error) {
	all, err := f.queries.ListClientNames(ctx)
	named := clientsNamed(all, strings.TrimSpace(name))
	switch {
	case err != nil:
		return uuid.Nil, postgres.Wrap("lookup", err)
	case len(named) == 0:
		return uuid.Nil, refusal.ErrClientNotFound
	case len(named) > 1:
		return uuid.Nil, ErrSeveral
	}
	return named[0].ClientID, nil
}

// OfGrant returns whose connection has a grant id, and with which client; uuid.Nil: nobody's. It finds a deleted user's connection as long as
// an event about its end is kept, the client's or the operator's.
func (f Finder) OfGrant(ctx context.Context, grantID uuid.UUID) (userID, clientID uuid.UUID, err error) {
	if grants, err := f.queries.FindGrant(ctx, grantID); err != nil || len(grants) > 0 {
		return first(grants).UserID, first(grants).ClientID, postgres.Wrap("lookup: grant", err)
	}
	ended, err := f.queries.FindEndedGrant(ctx, grantID)
	return first(ended).UserID, first(ended).ClientID, postgres.Wrap("lookup: grant", err)
}

// first returns the first row, or the zero row.
func first[Row any](rows []Row) (row Row) {
	if len(rows) > 0 {
		row = rows[0]
	}
	return row
}

func (f Finder) byID(ctx context.Context, id uuid.UUID) (matches []Found, err error) {
	users, noUsers := f.queries.FindUser(ctx, id)
	for _, row := range users {
		matches = append(matches, Found{Kind: User, UserID: row.UserID, Name: row.Email})
	}
	grants, noGrants := f.queries.FindGrant(ctx, id)
	for _, row := range grants {
		matches = append(matches, Found{Kind: Connection, UserID: row.UserID, ClientID: row.ClientID, Name: row.Name})
	}
	clients, noClients := f.queries.FindClient(ctx, id)
	for _, row := range clients {
		matches = append(matches, Found{Kind: Client, ClientID: row.ClientID, Name: row.Name})
	}
	requests, noRequests := f.queries.FindRefusedRequest(ctx, id)
	for _, row := range requests {
		matches = append(matches, Found{
			Kind: Request, ClientID: row.ClientID, Name: row.Name, At: row.At,
			Detail: fmt.Sprintf("%s: %d %s, %s", row.Operation, row.Status, row.Code, row.Reason),
		})
	}
	events, noEvents := f.queries.FindWebhookEvent(ctx, id)
	for _, row := range events {
		matches = append(matches, Found{
			Kind: Event, UserID: row.UserID, ClientID: row.ClientID, EventID: row.EventID, Name: row.Name, At: row.CreatedAt,
			Detail: row.Type + ", " + row.State,
		})
	}
	return matches, cmp.Or(noUsers, noGrants, noClients, noRequests, noEvents)
}

// clientsNamed returns the clients with a name, in any case.
func clientsNamed(all []lookupdb.ListClientNamesRow, name string) (named []lookupdb.ListClientNamesRow) {
	key := text.Fold(name)
	for _, row := range all {
		if text.Fold(row.Name) == key {
			named = append(named, row)
		}
	}
	return named
}
