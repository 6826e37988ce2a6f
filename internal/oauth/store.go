package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/actor"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
	"connect-svc/internal/scope"
)

// store carries out the acts of this package on the database. Each method, and each of Server in this file, is one whole
// act, and one statement unless it says otherwise.
type store struct {
	pool    *postgres.Pool
	queries *oauthdb.Queries
	lists   *oauthdb.Queries // planned for the filters that are given

	random io.Reader // of grant ids
}

func newStore(pool *postgres.Pool) store {
	return store{pool, oauthdb.New(pool), oauthdb.New(postgres.Replanned{Pool: pool}), rand.Reader}
}

// Request returns the pending request in which somebody has signed in with this secret, or ErrRequestEnded.
func (s *Server) Request(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (Request, error) {
	row, err := s.queries.GetAuthorizationRequest(ctx, oauthdb.GetAuthorizationRequestParams{
		RequestID: id, SessionHash: session[:],
	})
	if err != nil {
		return Request{}, postgres.NoRow(err, ErrRequestEnded)
	}
	return Request{
		Partner:     Partner{row.ClientID, row.Name, row.HomepageUrl, row.PrivacyUrl, row.TermsUrl, row.Logo},
		CallbackURL: row.RedirectUri,
		Scopes:      row.Scopes,
		ExpiresAt:   row.ExpiresAt,
		SignedIn:    true,
	}, nil
}

// SignedOut takes back who signed in for a request, so that somebody else may. Whoever did not sign in is no error.
func (s *Server) SignedOut(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) error {
	_, err := s.queries.SignOutAuthorizationRequest(ctx, oauthdb.SignOutAuthorizationRequestParams{
		RequestID: id, SessionHash: session[:],
	})
	return err
}

// consent is a request whose user signed in, and what is known of the user.
type consent struct {
	request oauthdb.GetConsentRequestRow
	user    oauthdb.GetConsentUserRow
}

// scopeMismatch says that the connection has other scopes than the request.
func (c consent) scopeMismatch() bool { return c.user.Connected && *c.user.Scopes != c.request.Scopes }

// consent finds what a consent is about. It is ErrRequestEnded, too, once the day that the consent holds for is over.
func (s store) consent(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (found consent, err error) {
	found.request, err = s.queries.GetConsentRequest(ctx, oauthdb.GetConsentRequestParams{RequestID: id, SessionHash: session[:]})
	if err != nil {
		return found, postgres.NoRow(err, ErrRequestEnded)
	}
	found.user, err = s.queries.GetConsentUser(ctx, oauthdb.GetConsentUserParams{
		UserID: *found.request.UserID, ClientID: found.request.ClientID,
	})
	if err != nil {
		return found, postgres.NoRow(err, ErrRequestEnded)
	}
	if day := found.request.ConsentDay; day != nil && !day.Equal(found.user.Today) {
		return found, ErrRequestEnded
	}
	return found, nil
}

// Consent returns what the user who signed in is asked. The user's calendar day when it is first called is the one
// that the consent holds for; once that day is over the request has ended (specification 3.1).
func (s *Server) Consent(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (Consent, error) {
	found, err := s.consent(ctx, id, session)
	if err != nil {
		return Consent{}, err
	}
	if found.request.ConsentDay == nil {
		n, err := s.queries.SetConsentDay(ctx, oauthdb.SetConsentDayParams{
			RequestID: id, SessionHash: session[:], ConsentDay: found.user.Today,
		})
		if err != nil {
			return Consent{}, err
		}
		if n == 0 {
			return Consent{}, ErrRequestEnded
		}
	}
	consent := Consent{
		Scopes:        found.request.Scopes,
		Email:         found.user.Email,
		HistoryFrom:   found.user.Today,
		ExpiresAt:     found.request.ExpiresAt,
		ScopeMismatch: found.scopeMismatch(),
	}
	if found.user.Connected {
		consent.HistoryFrom, consent.Current = *found.user.HistoryFrom, *found.user.Scopes
	}
	return consent, nil
}

// allow ends a request with a code, issued under the connection's present version. What changes of the connection
// between its statements, the exchange of the code finds out.
func (s store) allow(
	ctx context.Context, id uuid.UUID, session [sha256.Size]byte, codeLifetime time.Duration,
) (redirectURI, state string, code authorizationCode, err error) {
	found, err := s.consent(ctx, id, session)
	if err != nil {
		return "", "", code, err
	}
	if found.request.ConsentDay == nil || found.scopeMismatch() {
		return "", "", code, ErrRequestEnded
	}
	userID, clientID := *found.request.UserID, found.request.ClientID
	if !found.user.Known {
		if err := s.addConnection(ctx, userID, clientID, found.request.Scopes, found.user.Today); err != nil {
			return "", "", code, err
		}
	}
	row, err := s.queries.AllowAuthorizationRequest(ctx, oauthdb.AllowAuthorizationRequestParams{
		RequestID:    id,
		SessionHash:  session[:],
		UserID:       &userID,
		ConsentDay:   found.request.ConsentDay,
		Version:      found.user.Version,
		CodeLifetime: codeLifetime,
	})
	if err != nil {
		return "", "", code, postgres.NoRow(err, ErrRequestEnded)
	}
	return row.RedirectUri, row.State, authorizationCode{
		UserID:        userID,
		ClientID:      row.ClientID,
		Version:       found.user.Version,
		Scopes:        row.Scopes,
		ConsentDay:    found.user.Today.Unix(),
		CodeChallenge: [sha256.Size]byte(row.CodeChallenge),
		RedirectURI:   sha256.Sum256([]byte(row.RedirectUri)),
		ExpiresAt:     row.CodeExpiresAt.UnixMicro(),
	}, nil
}

// addConnection makes the row of a connection, as version 0, and its grant. Of many calls the first one does. Error:
// ErrRequestEnded, where the user was deleted.
func (s store) addConnection(ctx context.Context, userID, clientID uuid.UUID, scopes scope.Set, today time.Time) error {
	grantID, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		n, err := queries.AddConnection(ctx, oauthdb.AddConnectionParams{
			UserID: userID, ClientID: clientID, GrantID: grantID, Scopes: scopes, HistoryFrom: today,
		})
		if err != nil || n == 0 {
			return err
		}
		return queries.AddGrant(ctx, oauthdb.AddGrantParams{GrantID: grantID, UserID: userID, ClientID: clientID})
	})
	if postgres.IsForeignKeyViolation(err, "") {
		return ErrRequestEnded
	}
	return err
}

// Deny ends a request in which somebody has signed in, and returns the address to send the browser to. The secret is that of the
// sign-in, or the one that opened the request.
func (s *Server) Deny(ctx context.Context, id uuid.UUID, browser [sha256.Size]byte) (string, error) {
	row, err := s.queries.DenyAuthorizationRequest(ctx, oauthdb.DenyAuthorizationRequestParams{RequestID: id, BrowserHash: browser[:]})
	if err != nil {
		return "", fmt.Errorf("deny: %w", postgres.NoRow(err, ErrRequestEnded))
	}
	return callbackURL(row.RedirectUri, row.State, "error", "access_denied"), nil
}

// proofs are those of many credentials that are right.
func (s store) proofs(ctx context.Context, asked []Credentials) (map[Credentials]struct{}, error) {
	rows, err := s.queries.AuthenticateClients(ctx, oauthdb.AuthenticateClientsParams{
		ClientIds:    postgres.List(asked, func(c Credentials) uuid.UUID { return c.ClientID }),
		SecretHashes: postgres.List(asked, func(c Credentials) []byte { return c.SecretHash[:] }),
	})
	right := make(map[Credentials]struct{}, len(rows))
	for _, row := range rows {
		right[Credentials{row.ClientID, [32]byte(row.SecretHash)}] = struct{}{}
	}
	return right, err
}

// granted is what the database says of a connection after an exchange or a refresh, which was at AuthorizedAt.
type granted = oauthdb.AuthorizeConnectionRow

// authorize uses a code: a new version of the connection, whose first refresh token has this hash. Error: errNothingDone.
func (s store) authorize(ctx context.Context, client Credentials, code authorizationCode, redirectURI string, refreshHash []byte, inactivity time.Duration) (granted, error) {
	row, err := s.queries.AuthorizeConnection(ctx, oauthdb.AuthorizeConnectionParams{
		UserID:        code.UserID,
		ClientID:      code.ClientID,
		SecretHash:    client.SecretHash[:],
		CodeVersion:   code.Version,
		CodeExpiresAt: time.UnixMicro(code.ExpiresAt),
		RedirectUri:   redirectURI,
		Scopes:        code.Scopes,
		ConsentDay:    time.Unix(code.ConsentDay, 0).UTC(),
		RefreshHash:   refreshHash,
		Inactivity:    inactivity,
	})
	return row, postgres.NoRow(err, errNothingDone)
}

// refuseExchange says why a code was not used. It never returns nil: ErrInvalidClient, ErrInvalidGrant, errPossible, or a fault.
func (s store) refuseExchange(ctx context.Context, client Credentials, code authorizationCode, redirectURI string) error {
	found, err := s.queries.RefuseExchange(ctx, oauthdb.RefuseExchangeParams{
		UserID:        code.UserID,
		ClientID:      code.ClientID,
		SecretHash:    client.SecretHash[:],
		CodeVersion:   code.Version,
		CodeExpiresAt: time.UnixMicro(code.ExpiresAt),
		RedirectUri:   redirectURI,
		Scopes:        code.Scopes,
	})
	switch {
	case err != nil:
		return postgres.NoRow(err, errWrongClient)
	case found.Possible:
		return errPossible
	}
	return refusal.Because(ErrInvalidGrant, found.Reason)
}

// rotate replaces the current refresh token, if the one presented is it. Error: errNothingDone.
func (s store) rotate(ctx context.Context, client Credentials, token refreshToken, presentedHash, newHash []byte, inactivity time.Duration) (granted, error) {
	row, err := s.queries.RotateRefreshToken(ctx, oauthdb.RotateRefreshTokenParams{
		UserID:        token.UserID,
		ClientID:      token.ClientID,
		SecretHash:    client.SecretHash[:],
		Version:       token.Version,
		Generation:    token.Generation,
		PresentedHash: presentedHash,
		NewHash:       newHash,
		Inactivity:    inactivity,
	})
	now := row.RefreshDeadline.Add(-inactivity)
	return granted{
		GrantID: row.GrantID, Version: row.Version, Scopes: row.Scopes, HistoryFrom: row.HistoryFrom, AuthorizedAt: now,
	}, postgres.NoRow(err, errNothingDone)
}

// refuseRefresh says why a token was not rotated, and revokes its family if it was current before. It never returns nil:
// ErrInvalidClient, ErrReplayed, ErrLapsed, ErrInvalidGrant, errPossible, or a fault.
func (s store) refuseRefresh(ctx context.Context, client Credentials, token refreshToken, presentedHash []byte) error {
	found, err := s.queries.RefuseRefresh(ctx, oauthdb.RefuseRefreshParams{
		UserID:        token.UserID,
		ClientID:      token.ClientID,
		SecretHash:    client.SecretHash[:],
		Version:       token.Version,
		Generation:    token.Generation,
		PresentedHash: presentedHash,
	})
	switch {
	case err != nil:
		return postgres.NoRow(err, errWrongClient)
	case found.Replayed:
		return ErrReplayed
	case found.Lapsed:
		return ErrLapsed
	case found.Possible:
		return errPossible
	}
	return refusal.Because(ErrInvalidGrant, found.Reason)
}

// revoke and revokeAccessToken do nothing where that was revoked before. Error: ErrInvalidClient.
func (s store) revoke(ctx context.Context, client Credentials, token refreshToken) error {
	_, err := s.queries.RevokeConnection(ctx, oauthdb.RevokeConnectionParams{
		UserID: token.UserID, ClientID: token.ClientID, SecretHash: client.SecretHash[:], Version: token.Version,
	})
	return postgres.NoRow(err, errWrongClient)
}

func (s store) revokeAccessToken(ctx context.Context, client Credentials, token accessToken) error {
	_, err := s.queries.RevokeAccessToken(ctx, oauthdb.RevokeAccessTokenParams{
		UserID:     token.UserID,
		ClientID:   token.ClientID,
		SecretHash: client.SecretHash[:],
		Version:    token.Version,
		TokenID:    token.TokenID,
		ExpiresAt:  time.UnixMicro(token.ExpiresAt),
	})
	if postgres.IsForeignKeyViolation(err, "") { // the user was deleted, and the token with the user
		return nil
	}
	return postgres.NoRow(err, errWrongClient)
}

// findGrant is the user of a grant, nil where the client has no such grant. Error: ErrInvalidClient.
func (s store) findGrant(ctx context.Context, client Credentials, grantID uuid.UUID) (*uuid.UUID, error) {
	userID, err := s.queries.FindGrant(ctx, oauthdb.FindGrantParams{
		GrantID: grantID, ClientID: client.ClientID, SecretHash: client.SecretHash[:],
	})
	return userID, postgres.NoRow(err, errWrongClient)
}

// refuseAccess says why an access token of ours gives no access. That it does not is settled: what cannot be found out, or has
// changed since, stays without a reason.
func (s store) refuseAccess(ctx context.Context, token accessToken) error {
	reason, err := s.queries.RefuseAccess(ctx, oauthdb.RefuseAccessParams{
		UserID:    token.UserID,
		ClientID:  token.ClientID,
		TokenID:   token.TokenID,
		Version:   token.Version,
		ExpiresAt: time.UnixMicro(token.ExpiresAt),
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		reason = "the user was deleted"
	case err != nil:
		return ErrInvalidAccessToken //nolint:nilerr // the reason is for the log alone
	}
	return refusal.Because(ErrInvalidAccessToken, reason)
}

func (s store) access(ctx context.Context, token accessToken) (Access, error) {
	row, err := s.queries.AuthenticateAccess(ctx, oauthdb.AuthenticateAccessParams{
		UserID:    token.UserID,
		ClientID:  token.ClientID,
		TokenID:   token.TokenID,
		Version:   token.Version,
		ExpiresAt: time.UnixMicro(token.ExpiresAt),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Access{}, s.refuseAccess(ctx, token)
	}
	if err != nil {
		return Access{}, err
	}
	if row.ToBeNoted { // that the client reads, for the user to see: once an hour
		if err := s.queries.NoteRead(ctx, oauthdb.NoteReadParams{
			UserID: token.UserID, ClientID: token.ClientID, Version: token.Version,
		}); err != nil {
			return Access{}, err
		}
	}
	return Access{
		UserID:            token.UserID,
		ClientID:          token.ClientID,
		GrantID:           row.GrantID,
		ConnectionVersion: token.Version,
		Scopes:            row.Scopes,
		HistoryFrom:       row.HistoryFrom,
		RegisteredOn:      row.RegisteredOn,
		Now:               row.Now,
		RequestsPerMinute: int(row.RequestsPerMinute),
		Burst:             int(row.Burst),
		ConcurrentReads:   int(row.ConcurrentReads),
	}, nil
}

// disconnect ends a connection, whatever state it is in. It is one act for all who may: the "client", the "user" and the
// "operator". Error: ErrNotConnected.
func (s *Server) disconnect(ctx context.Context, userID, clientID uuid.UUID, by string) error {
	unlock, err := s.turns.Lock(ctx, row{userID, clientID})
	if err != nil {
		return err
	}
	defer unlock()
	_, err = s.queries.DisconnectConnection(ctx, oauthdb.DisconnectConnectionParams{
		UserID: userID, ClientID: clientID, Actor: by,
	})
	return postgres.NoRow(err, ErrNotConnected)
}

// EndConnectionsOfUser disconnects a user from every client within the transaction that goes on to delete the user, and
// returns how many connections were not disconnected before. The clients are told. The transaction holds the user's row,
// so that no connection is made meanwhile. Nothing of the user is left that does not go with the user's row.
func EndConnectionsOfUser(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error) {
	queries := oauthdb.New(tx)
	n, err := queries.EndConnectionsOfUser(ctx, oauthdb.EndConnectionsOfUserParams{UserID: userID, Actor: actor.Of(ctx)})
	if err != nil {
		return 0, err
	}
	grants, err := queries.ListGrantsOfUser(ctx, userID)
	if err != nil {
		return 0, err
	}
	return n, errors.Join(queries.DeleteGrants(ctx, grants), queries.EndRequestsOfUsers(ctx, []uuid.UUID{userID}))
}

// EndRequestsOfUsers ends the authorization requests that users signed in to, within a transaction.
func EndRequestsOfUsers(ctx context.Context, tx pgx.Tx, userIDs []uuid.UUID) error {
	return oauthdb.New(tx).EndRequestsOfUsers(ctx, userIDs)
}

// endOffboarded disconnects users from clients that were offboarded, in parts of a thousand: from one, or nil for all.
func (s store) endOffboarded(ctx context.Context, clientID *uuid.UUID) (ended int64, err error) {
	const part = 1000
	for {
		n, err := s.queries.EndConnectionsOfOffboarded(ctx, oauthdb.EndConnectionsOfOffboardedParams{
			ClientID: clientID, Actor: actor.Of(ctx), MaxRows: part,
		})
		if ended += n; err != nil || n < part {
			return ended, err
		}
	}
}

// Connections returns connections, ended ones too, in the order of users and clients: at most limit, those after a position.
func (s *Server) Connections(ctx context.Context, filter Filter, after page.Key, limit int) ([]Connection, error) {
	rows, err := s.lists.ListConnections(ctx, oauthdb.ListConnectionsParams{
		UserID: filter.UserID, ClientID: filter.ClientID, AfterUser: after.Of, AfterClient: after.ID, MaxRows: int32(limit),
	})
	return postgres.List(rows, func(row oauthdb.ListConnectionsRow) Connection {
		return connectionOf(oauthdb.ListConnectionsOfUserRow(row)) // the same columns
	}), err
}

func connectionOf(row oauthdb.ListConnectionsOfUserRow) Connection {
	return Connection{
		UserID:       row.UserID,
		Partner:      Partner{row.ClientID, row.Name, row.HomepageUrl, row.PrivacyUrl, row.TermsUrl, row.Logo},
		GrantID:      row.GrantID,
		Version:      row.Version,
		State:        State(row.State),
		Scopes:       row.Scopes,
		HistoryFrom:  row.HistoryFrom,
		AuthorizedAt: row.AuthorizedAt,
		LastReadAt:   row.LastReadAt,
	}
}

// Life returns what is known of one connection, also of one that has ended. Error: ErrNotConnected.
func (s *Server) Life(ctx context.Context, userID, clientID uuid.UUID) (Life, error) {
	row, err := s.queries.GetConnection(ctx, oauthdb.GetConnectionParams{UserID: userID, ClientID: clientID})
	if err != nil {
		return Life{}, postgres.NoRow(err, ErrNotConnected)
	}
	life := Life{
		Connection: connectionOf(oauthdb.ListConnectionsOfUserRow{
			UserID: row.UserID, ClientID: row.ClientID, GrantID: row.GrantID, Name: row.Name, HomepageUrl: row.HomepageUrl,
			PrivacyUrl: row.PrivacyUrl, TermsUrl: row.TermsUrl, Logo: row.Logo, Version: row.Version, State: row.State, Scopes: row.Scopes,
			HistoryFrom: row.HistoryFrom, AuthorizedAt: row.AuthorizedAt, LastReadAt: row.LastReadAt,
		}),
		Refreshes:       row.RefreshGeneration - 1,
		RefreshDeadline: row.RefreshDeadline,
		ClientStatus:    row.Status,
		MissingScopes:   row.Scopes &^ row.Registered,
	}
	if life.Refreshes > 0 {
		life.LastRefreshAt = row.RefreshDeadline.Add(-s.settings.RefreshInactivity)
	}
	return life, nil
}
