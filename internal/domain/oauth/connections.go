package oauth

import (
	"context"
	"time"

	"github.com/google/uuid"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/text"
)

// State of a connection.
type State string

// The states (specification 3). Lapsed is derived from the refresh deadline and never stored.
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
	AuthorizedAt time.Time  // of the current version
	LastReadAt   *time.Time // accurate to an hour; nil if the client has not read
	LastReadOf   scope.Set  // what it read then; empty if unknown
	Browser      string     // in which the user last allowed it, in words, or empty if unknown

	Refreshes       int64     // since AuthorizedAt
	LastRefreshAt   time.Time // zero if there was none. Derived from the deadline, and wrong if the operator has changed the inactivity since
	RefreshDeadline time.Time // when it lapses, or lapsed; meaningless once the connection has ended
	ClientStatus    string    // active, disabled or offboarded
	MissingScopes   scope.Set // the client has lost these scopes of the connection, and so cannot refresh it
}

// Filter selects connections. A nil field matches all.
type Filter struct{ UserID, ClientID *uuid.UUID }

// Key returns the connection's key in the list.
func (c Connection) Key() page.Key { return page.Key{Of: c.UserID, ID: c.Partner.ClientID} }

// Connections returns at most limit connections after a key, ordered by user and client. It includes connections that have ended.
func (s *Server) Connections(ctx context.Context, filter Filter, after page.Key, limit int) ([]Connection, error) {
	rows, err := s.lists.ListConnections(ctx, oauthdb.ListConnectionsParams{
		UserID: filter.UserID, ClientID: filter.ClientID, AfterUser: after.Of, AfterClient: after.ID, MaxRows: int32(limit),
	})
	return postgres.Map(rows, s.connectionOf), err
}

// ConnectionsOfUser returns a user's connections, ordered by the name of the client, without disconnected ones. There are none for an
// unknown user.
func (s *Server) ConnectionsOfUser(ctx context.Context, userID uuid.UUID) ([]Connection, error) {
	rows, err := s.queries.ListConnectionsOfUser(ctx, userID)
	list := postgres.Map(rows, func(row oauthdb.ListConnectionsOfUserRow) Connection {
		return s.connectionOf(oauthdb.ListConnectionsRow(row)) // the same columns
	})
	text.Sort(list, func(c Connection) string { return c.Partner.Name })
	return list, err
}

// Connection returns a connection, also one that has ended. Error: ErrNotConnected.
func (s *Server) Connection(ctx context.Context, userID, clientID uuid.UUID) (Connection, error) {
	found, err := s.Connections(ctx, Filter{&userID, &clientID}, page.Key{}, 1)
	if err == nil && len(found) == 0 {
		err = ErrNotConnected
	}
	if err != nil {
		return Connection{}, err
	}
	return found[0], nil
}

func (s *Server) connectionOf(row oauthdb.ListConnectionsRow) Connection {
	connection := Connection{
		UserID:          row.UserID,
		Partner:         Partner{row.ClientID, row.Name, row.HomepageUrl, row.PrivacyUrl, row.TermsUrl, row.Logo},
		GrantID:         row.GrantID,
		Version:         row.Version,
		State:           State(row.State),
		Scopes:          row.Scopes,
		HistoryFrom:     row.HistoryFrom,
		AuthorizedAt:    row.AuthorizedAt,
		LastReadAt:      row.LastReadAt,
		Browser:         row.Browser,
		Refreshes:       max(row.RefreshGeneration-1, 0),
		RefreshDeadline: row.RefreshDeadline,
		ClientStatus:    row.Status,
		MissingScopes:   row.Scopes &^ row.Registered,
	}
	if row.LastReadAt != nil {
		connection.LastReadOf = scope.Set(row.LastReadScope)
	}
	if connection.Refreshes > 0 {
		connection.LastRefreshAt = row.RefreshDeadline.Add(-s.settings.RefreshInactivity)
	}
	return connection
}

// FindGrant returns the user and the client of a grant. Error: ErrNotConnected.
func (s *Server) FindGrant(ctx context.Context, grantID uuid.UUID) (userID, clientID uuid.UUID, err error) {
	row, err := s.queries.GetGrant(ctx, grantID)
	return row.UserID, row.ClientID, postgres.NoRowsAs(err, ErrNotConnected)
}
