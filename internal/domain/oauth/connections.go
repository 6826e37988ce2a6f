package oauth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	HistoryFrom  time.Time // the first readable date: midnight UTC
	AuthorizedAt time.Time // of the current version
	Reads        []Read    // the client's last ones, newest first; nil if it has not read
	Browser      string    // in which the user last allowed it, in words, or empty if unknown

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
	list, err := s.Connections(ctx, Filter{&userID, &clientID}, page.Key{}, 1)
	if err == nil && len(list) == 0 {
		err = ErrNotConnected
	}
	if err != nil {
		return Connection{}, err
	}
	return list[0], nil
}

// Grants returns the grants of users with a client. A deleted user has none.
func (s *Server) Grants(ctx context.Context, clientID uuid.UUID, userIDs []uuid.UUID) (map[uuid.UUID]uuid.UUID, error) {
	rows, err := s.queries.ListGrants(ctx, oauthdb.ListGrantsParams{ClientID: clientID, UserIds: userIDs})
	grants := map[uuid.UUID]uuid.UUID{}
	for _, row := range rows {
		grants[row.UserID] = row.GrantID
	}
	return grants, postgres.Wrap("grants", err)
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
		Reads:           readsOf(row),
		Browser:         row.Browser,
		Refreshes:       max(row.RefreshGeneration-1, 0),
		RefreshDeadline: row.RefreshDeadline,
		ClientStatus:    row.Status,
		MissingScopes:   row.Scopes &^ row.Registered,
	}
	if connection.Refreshes > 0 {
		connection.LastRefreshAt = row.RefreshDeadline.Add(-s.settings.RefreshInactivity)
	}
	return connection
}

// A disconnect ends a connection in any state: all its codes and tokens stop working, and a later connection needs fresh consent
// (specification 3.2, 4.10). It may be repeated.

// Disconnect ends the client's connection that has this grant. A grant that is unknown or another client's changes nothing and is not
// an error. Error: ErrInvalidClient.
func (s *Server) Disconnect(ctx context.Context, client Credentials, grantID uuid.UUID) error {
	if err := s.AuthenticateClient(ctx, client); err != nil { // the id of a grant is not a credential
		return err
	}
	ctx = asClient(ctx, client.ClientID)
	userID, err := s.queries.FindGrant(ctx, oauthdb.FindGrantParams{
		GrantID: grantID, ClientID: client.ClientID, SecretHash: client.SecretHash[:],
	})
	if err == nil && userID != nil {
		err = s.disconnect(ctx, *userID, client.ClientID, "client", nil)
	}
	if errors.Is(err, ErrNotConnected) { // the user was deleted in the meantime
		return nil
	}
	return postgres.WrapNoRows("disconnect", err, errWrongClient)
}

// DisconnectUser ends the user's connection with a client, at the user's request. Error: ErrNotConnected.
func (s *Server) DisconnectUser(ctx context.Context, userID, clientID uuid.UUID) error {
	return s.disconnect(ctx, userID, clientID, "user", nil)
}

// DisconnectVersion ends a version of the user's connection with a client, at the user's request. Error: ErrNotConnected, also if the
// connection has another version.
func (s *Server) DisconnectVersion(ctx context.Context, userID, clientID uuid.UUID, version int64) error {
	return s.disconnect(ctx, userID, clientID, "user", &version)
}

// DisconnectByOperator ends a user's connection with a client for the operator who acts under ctx. Error: ErrNotConnected.
func (s *Server) DisconnectByOperator(ctx context.Context, userID, clientID uuid.UUID) error {
	return s.disconnect(ctx, userID, clientID, work.Actor(ctx), nil)
}

// disconnect is the act of all of the above. Error: ErrNotConnected.
func (s *Server) disconnect(ctx context.Context, userID, clientID uuid.UUID, actor string, version *int64) error {
	unlock, err := s.connections.Lock(ctx, connectionKey{userID, clientID})
	if err != nil {
		return err
	}
	defer unlock()
	_, err = s.queries.DisconnectConnection(ctx, oauthdb.DisconnectConnectionParams{
		UserID: userID, ClientID: clientID, Actor: actor, OfVersion: version,
	})
	return postgres.NoRowsAs(err, ErrNotConnected)
}

// EndConnectionsOfUser disconnects a user from every client within the transaction that deletes the user, and returns how many
// connections were not disconnected before. The clients get their events. The transaction must hold the lock of the user's row, so that
// no connection is added. It also deletes the user's rows that have no foreign key to the user.
func EndConnectionsOfUser(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error) {
	queries := oauthdb.New(tx)
	waited := queries.AwaitMerges(ctx, userID)
	n, ended := queries.EndConnectionsOfUser(ctx, oauthdb.EndConnectionsOfUserParams{UserID: userID, Actor: work.Actor(ctx)})
	grants, listed := queries.ListGrantsOfUser(ctx, userID)
	// After a failed statement the transaction refuses the others.
	return n, cmp.Or(waited, ended, listed, queries.DeleteGrants(ctx, grants), queries.EndRequestsOfUsers(ctx, []uuid.UUID{userID}))
}

// EndRequestsOfUsers ends the authorization requests that users have signed in to, within a transaction.
func EndRequestsOfUsers(ctx context.Context, tx pgx.Tx, userIDs []uuid.UUID) error {
	return oauthdb.New(tx).EndRequestsOfUsers(ctx, userIDs)
}

// EndConnectionsOfClient disconnects every user from an offboarded client, a thousand in a statement, and returns how many connections were not
// disconnected before. If it is interrupted, [Server.Sweep] continues.
func EndConnectionsOfClient(ctx context.Context, pool *postgres.Pool, clientID uuid.UUID) (ended int64, err error) {
	for {
		part, err := oauthdb.New(pool).EndConnectionsOfOffboarded(ctx, oauthdb.EndConnectionsOfOffboardedParams{
			ClientID: clientID, Actor: work.Actor(ctx), MaxRows: perStatement,
		})
		if ended += part.Ended; err != nil || part.Ended == part.Chosen && part.Chosen < perStatement {
			return ended, err
		}
	}
}

// RevokeTokensOfClient revokes all authorized and lapsed connections of a client, a thousand in a statement, and returns how many. One that
// begins meanwhile may stay. If it is interrupted, a repetition continues. Errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (s *Server) RevokeTokensOfClient(ctx context.Context, clientID uuid.UUID) (revoked int64, err error) {
	status, err := s.queries.AuditTokensRevoked(ctx, oauthdb.AuditTokensRevokedParams{ClientID: clientID, Actor: work.Actor(ctx)})
	switch {
	case err != nil:
		return 0, postgres.Wrap("tokens of client "+clientID.String(), postgres.NoRowsAs(err, refusal.ErrClientNotFound))
	case status == "offboarded":
		return 0, refusal.ErrClientOffboarded
	}
	for last := uuid.Nil; ; {
		part, err := s.queries.RevokeConnectionsOfClient(ctx, oauthdb.RevokeConnectionsOfClientParams{
			ClientID: clientID, Actor: work.Actor(ctx), AfterUser: last, MaxRows: perStatement,
		})
		last = part.LastUser
		if revoked += part.Revoked; err != nil || part.Chosen < perStatement {
			return revoked, postgres.Wrap("tokens of client "+clientID.String(), err)
		}
	}
}

// perStatement is how many connections of a client end in one statement, and perLook how many that have lapsed a read of the whole table finds: a
// partner that stops refreshing has as many within an hour as it has users.
const perStatement, perLook = 1000, 100_000

// TellLapses adds receipts, and entries of the audit log, for connections that have lapsed within a week, a thousand in a statement. Every server may call it; once an
// hour is enough.
func (s *Server) TellLapses(ctx context.Context) error {
	since := s.settings.Now().Add(-7 * 24 * time.Hour) // the servers may have been stopped for days
	for {
		var lapsed []oauthdb.FindLapsedRow
		err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
			// The statement reads the whole table.
			if _, err = tx.Exec(ctx, "set local statement_timeout = '10min'"); err == nil {
				lapsed, err = s.queries.WithTx(tx).FindLapsed(ctx, oauthdb.FindLapsedParams{Since: since, MaxRows: perLook})
			}
			return err
		})
		for part := range slices.Chunk(lapsed, perStatement) {
			err = cmp.Or(err, s.queries.TellLapses(ctx, oauthdb.TellLapsesParams{
				UserIds:   postgres.Map(part, func(row oauthdb.FindLapsedRow) uuid.UUID { return row.UserID }),
				ClientIds: postgres.Map(part, func(row oauthdb.FindLapsedRow) uuid.UUID { return row.ClientID }),
				Deadlines: postgres.Map(part, func(row oauthdb.FindLapsedRow) time.Time { return row.RefreshDeadline }),
				Actor:     work.System,
			}))
		}
		if err != nil || len(lapsed) < perLook {
			return postgres.Wrap("tell of lapsed connections", err)
		}
	}
}
