package oauth

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/actor"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
	"connect-svc/internal/scope"
)

// ErrNotConnected says that the user has never been connected with the client.
var ErrNotConnected = errors.New("not connected")

// State is what a connection is in.
type State string

// The states of a connection (specification 3). Lapsed is derived from the refresh deadline and never stored.
const (
	Authorized   State = "authorized"
	Lapsed       State = "lapsed"
	Revoked      State = "revoked"
	Disconnected State = "disconnected"
)

// Connection links a user to a client (specification 2.2), as the people who may end it see it.
type Connection struct {
	UserID       uuid.UUID
	Partner      Partner
	GrantID      uuid.UUID
	Version      int64
	State        State
	Scopes       scope.Set
	HistoryFrom  time.Time  // the first readable date: midnight UTC
	AuthorizedAt time.Time  // when its present version was authorized
	LastReadAt   *time.Time // to within an hour; nil where the client has not read
}

// Filter narrows a list of connections. A nil field does not.
type Filter struct{ UserID, ClientID *uuid.UUID }

// Key is the connection's place in a list.
func (c Connection) Key() page.Key { return page.Key{Of: c.UserID, ID: c.Partner.ClientID} }

// Life is a connection with what tells how it went.
type Life struct {
	Connection
	Refreshes       int64     // since AuthorizedAt
	LastRefreshAt   time.Time // zero: none. It is derived from the deadline: about, if the operator has changed the inactivity since
	RefreshDeadline time.Time // since when it is lapsed, if it is; without meaning once it has ended
	ClientStatus    string    // active, disabled or offboarded
	MissingScopes   scope.Set // of the connection, which the client's registration does not have any more: it cannot refresh
}

// RefreshInactivity is for how long a client may leave a connection without a refresh.
func (s *Server) RefreshInactivity() time.Duration { return s.settings.RefreshInactivity }

// FindGrant returns whose grant it is, and of which client. Error: ErrNotConnected.
func (s *Server) FindGrant(ctx context.Context, grantID uuid.UUID) (userID, clientID uuid.UUID, err error) {
	row, err := s.queries.GetGrant(ctx, grantID)
	return row.UserID, row.ClientID, postgres.NoRow(err, ErrNotConnected)
}

// CountRequests is how many authorization requests a user has signed in to that have not ended, counted as far as a thousand.
func (s *Server) CountRequests(ctx context.Context, userID uuid.UUID) (int64, error) {
	return s.queries.CountRequestsOfUser(ctx, userID)
}

// ConnectionsOfUser returns a user's connections by the name of the client, without disconnected ones. A user that
// does not exist has none.
func (s *Server) ConnectionsOfUser(ctx context.Context, userID uuid.UUID) ([]Connection, error) {
	rows, err := s.queries.ListConnectionsOfUser(ctx, userID)
	return postgres.List(rows, connectionOf), err
}

// DisconnectUser ends the user's connection with a client, as the user asked: all its codes and tokens stop working,
// and a later connection needs fresh consent (specification 3.2). It is the same act as the client's own
// [Server.Disconnect], and does no harm twice. Error: ErrNotConnected.
func (s *Server) DisconnectUser(ctx context.Context, userID, clientID uuid.UUID) error {
	return s.disconnect(ctx, userID, clientID, "user")
}

// DisconnectByOperator is [Server.DisconnectUser] where the operator decided it: whoever acts under ctx.
func (s *Server) DisconnectByOperator(ctx context.Context, userID, clientID uuid.UUID) error {
	return s.disconnect(ctx, userID, clientID, actor.Of(ctx))
}

// EndConnectionsOfClient disconnects every user from a client that was offboarded, and returns how many connections were
// not disconnected before. Where it is cut off, [Server.Sweep] goes on.
func EndConnectionsOfClient(ctx context.Context, pool *postgres.Pool, clientID uuid.UUID) (int64, error) {
	return newStore(pool).endOffboarded(ctx, &clientID)
}
