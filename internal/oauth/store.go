package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/postgres"
	"connect-svc/internal/scope"
)

// store carries out the acts of this package on the database. Each method is one whole act.
type store struct {
	queries *oauthdb.Queries
	acts    *postgres.Together // on a connection
	reads   *postgres.Together // who may read
}

func newStore(pool *pgxpool.Pool) store {
	return store{oauthdb.New(pool), postgres.NewTogether(pool), postgres.NewTogether(pool)}
}

// on is where acts on a connection go.
func (s store) on(userID, clientID uuid.UUID) *oauthdb.Queries {
	return oauthdb.New(s.acts.On(userID, clientID))
}

// none replaces "no row", which is how a statement says that its conditions did not hold, by what it means.
func none(err, meaning error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return meaning
	}
	return err
}

// registered is what an authorization request is compared with.
type registered struct {
	callbackURL string
	allowance   scope.Set
}

func (s store) activeClient(ctx context.Context, id uuid.UUID) (client registered, found bool, err error) {
	row, err := s.queries.GetRegistration(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return registered{}, false, nil
	}
	if err != nil {
		return registered{}, false, err
	}
	return registered{row.CallbackUrl, row.Scopes}, row.Status == "active", nil
}

func (s store) createRequest(ctx context.Context, request authorizationRequest) error {
	return s.queries.CreateAuthorizationRequest(ctx, oauthdb.CreateAuthorizationRequestParams{
		RequestID:     request.id,
		BrowserHash:   request.browser[:],
		ClientID:      request.clientID,
		RedirectUri:   request.redirectURI,
		Scopes:        request.scopes,
		State:         request.state,
		CodeChallenge: request.codeChallenge,
		Lifetime:      request.lifetime,
	})
}

func (s store) request(ctx context.Context, id uuid.UUID, browser [sha256.Size]byte) (Request, error) {
	row, err := s.queries.GetAuthorizationRequest(ctx, oauthdb.GetAuthorizationRequestParams{
		RequestID: id, BrowserHash: browser[:],
	})
	if err != nil {
		return Request{}, none(err, ErrRequestEnded)
	}
	return Request{
		ClientName:  row.Name,
		HomepageURL: given(row.HomepageUrl),
		CallbackURL: row.RedirectUri,
		Scopes:      row.Scopes,
		ExpiresAt:   row.ExpiresAt,
		SignedIn:    row.UserID != nil,
	}, nil
}

func (s store) signIn(ctx context.Context, id uuid.UUID, browser [sha256.Size]byte, userID uuid.UUID) error {
	n, err := s.queries.SignInAuthorizationRequest(ctx, oauthdb.SignInAuthorizationRequestParams{
		RequestID: id, BrowserHash: browser[:], UserID: &userID,
	})
	if err == nil && n == 0 {
		return ErrRequestEnded
	}
	return err
}

func (s store) showConsent(ctx context.Context, id uuid.UUID, browser [sha256.Size]byte) (Consent, error) {
	row, err := s.queries.ShowConsent(ctx, oauthdb.ShowConsentParams{RequestID: id, BrowserHash: browser[:]})
	if err != nil {
		return Consent{}, none(err, ErrRequestEnded)
	}
	return Consent{
		ClientName:    row.Name,
		HomepageURL:   given(row.HomepageUrl),
		CallbackURL:   row.RedirectUri,
		Scopes:        row.Scopes,
		Email:         row.Email,
		HistoryFrom:   row.HistoryFrom,
		ExpiresAt:     row.ExpiresAt,
		ScopeMismatch: row.ScopeMismatch,
	}, nil
}

// allowed is a request that ended with a code.
type allowed struct {
	redirectURI, state string
	code               authorizationCode
}

func (s store) allow(ctx context.Context, id uuid.UUID, browser [sha256.Size]byte, codeLifetime time.Duration) (allowed, error) {
	row, err := s.queries.AllowAuthorizationRequest(ctx, oauthdb.AllowAuthorizationRequestParams{
		RequestID: id, BrowserHash: browser[:], CodeLifetime: codeLifetime,
	})
	if err != nil {
		return allowed{}, none(err, ErrRequestEnded)
	}
	return allowed{row.RedirectUri, row.State, authorizationCode{
		UserID:        *row.UserID,
		ClientID:      row.ClientID,
		Version:       row.Version,
		Scopes:        row.Scopes,
		ConsentDay:    row.ConsentDay.Unix(),
		CodeChallenge: [sha256.Size]byte(row.CodeChallenge),
		RedirectURI:   sha256.Sum256([]byte(row.RedirectUri)),
		ExpiresAt:     row.CodeExpiresAt.UnixMicro(),
	}}, nil
}

func (s store) deny(ctx context.Context, id uuid.UUID, browser [sha256.Size]byte) (redirectURI, state string, err error) {
	row, err := s.queries.DenyAuthorizationRequest(ctx, oauthdb.DenyAuthorizationRequestParams{
		RequestID: id, BrowserHash: browser[:],
	})
	return row.RedirectUri, row.State, none(err, ErrRequestEnded)
}

// authorize uses a code: a new version of the connection, whose first refresh token has this hash.
func (s store) authorize(ctx context.Context, secretHash []byte, code authorizationCode, redirectURI string, refreshHash []byte, inactivity time.Duration) (granted, error) {
	row, err := s.on(code.UserID, code.ClientID).AuthorizeConnection(ctx, oauthdb.AuthorizeConnectionParams{
		UserID:        code.UserID,
		ClientID:      code.ClientID,
		NewGrantID:    uuid.New(), // kept only if the connection is the first
		CodeVersion:   code.Version,
		CodeExpiresAt: time.UnixMicro(code.ExpiresAt),
		RedirectUri:   redirectURI,
		Scopes:        code.Scopes,
		ConsentDay:    time.Unix(code.ConsentDay, 0).UTC(),
		RefreshHash:   refreshHash,
		Inactivity:    inactivity,
		SecretHash:    secretHash,
	})
	return granted{row.GrantID, row.Version, row.Scopes, row.HistoryFrom, row.Now}, none(err, ErrInvalidGrant)
}

// rotate replaces the current refresh token, if the one presented is it.
func (s store) rotate(ctx context.Context, secretHash []byte, token refreshToken, presentedHash, newHash []byte, inactivity time.Duration) (granted, error) {
	row, err := s.on(token.UserID, token.ClientID).RotateRefreshToken(ctx, oauthdb.RotateRefreshTokenParams{
		UserID:        token.UserID,
		ClientID:      token.ClientID,
		Version:       token.Version,
		Generation:    token.Generation,
		PresentedHash: presentedHash,
		NewHash:       newHash,
		Inactivity:    inactivity,
		SecretHash:    secretHash,
	})
	return granted{row.GrantID, row.Version, row.Scopes, row.HistoryFrom, row.Now}, none(err, ErrInvalidGrant)
}

// revokeReplayed revokes the connection's version if the token was current before, and does nothing otherwise. It tells
// which.
func (s store) revokeReplayed(ctx context.Context, token refreshToken) (replayed bool, err error) {
	n, err := s.queries.RevokeReplayedConnection(ctx, oauthdb.RevokeReplayedConnectionParams{
		UserID: token.UserID, ClientID: token.ClientID, Version: token.Version, Generation: token.Generation,
	})
	return n > 0, err
}

// lapsed tells whether the token's version of the connection is authorized still and past its refresh deadline.
func (s store) lapsed(ctx context.Context, token refreshToken) (bool, error) {
	return s.queries.IsLapsed(ctx, oauthdb.IsLapsedParams{
		UserID: token.UserID, ClientID: token.ClientID, Version: token.Version,
	})
}

// revoke and revokeAccessToken tell whether anything was revoked that was not before.
func (s store) revoke(ctx context.Context, secretHash []byte, token refreshToken) (done bool, err error) {
	n, err := s.on(token.UserID, token.ClientID).RevokeConnection(ctx, oauthdb.RevokeConnectionParams{
		UserID: token.UserID, ClientID: token.ClientID, Version: token.Version, SecretHash: secretHash,
	})
	return n > 0, err
}

func (s store) revokeAccessToken(ctx context.Context, secretHash []byte, token accessToken) (done bool, err error) {
	n, err := s.on(token.UserID, token.ClientID).RevokeAccessToken(ctx, oauthdb.RevokeAccessTokenParams{
		UserID:    token.UserID,
		ClientID:  token.ClientID,
		Version:   token.Version,
		TokenID:   token.TokenID,
		ExpiresAt: time.UnixMicro(token.ExpiresAt),

		SecretHash: secretHash,
	})
	return n > 0, err
}

func (s store) disconnect(ctx context.Context, clientID, grantID uuid.UUID) error {
	userID, err := s.queries.FindGrant(ctx, oauthdb.FindGrantParams{GrantID: grantID, ClientID: clientID})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.queries.DisconnectConnection(ctx, oauthdb.DisconnectConnectionParams{
		UserID: userID, ClientID: clientID, Actor: "client",
	})
	return err
}

func (s store) access(ctx context.Context, token accessToken) (Access, error) {
	row, err := oauthdb.New(s.reads.On()).AuthenticateAccess(ctx, oauthdb.AuthenticateAccessParams{
		UserID:    token.UserID,
		ClientID:  token.ClientID,
		TokenID:   token.TokenID,
		Version:   token.Version,
		ExpiresAt: time.UnixMicro(token.ExpiresAt),
	})
	if err != nil {
		return Access{}, none(err, ErrInvalidAccessToken)
	}
	if err := s.noteRead(ctx, token, row.ToBeNoted); err != nil {
		return Access{}, err
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

// accessAndAdmission is access with the rate limiter's decision.
func (s store) accessAndAdmission(ctx context.Context, token accessToken, admission Admission) (Access, *Admitted, error) {
	row, err := oauthdb.New(s.reads.On(token.ClientID)).AuthenticateAndAdmit(ctx, oauthdb.AuthenticateAndAdmitParams{
		UserID:       token.UserID,
		ClientID:     token.ClientID,
		TokenID:      token.TokenID,
		Version:      token.Version,
		ExpiresAt:    time.UnixMicro(token.ExpiresAt),
		NeededScopes: int16(admission.Scopes),
		NeededGrant:  admission.GrantID,
		LeaseID:      admission.Lease,
	})
	if err != nil {
		return Access{}, nil, none(err, ErrInvalidAccessToken)
	}
	if err := s.noteRead(ctx, token, row.ToBeNoted); err != nil {
		return Access{}, nil, err
	}
	var admitted *Admitted
	if row.Remaining != nil {
		admitted = &Admitted{int(*row.Remaining), int(*row.ResetSeconds)}
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
	}, admitted, nil
}

// noteRead notes that the client reads, for the user to see, where that is due: once an hour.
func (s store) noteRead(ctx context.Context, token accessToken, due bool) error {
	if !due {
		return nil
	}
	return s.queries.NoteRead(ctx, oauthdb.NoteReadParams{UserID: token.UserID, ClientID: token.ClientID, Version: token.Version})
}

func (s store) sweep(ctx context.Context) error {
	_, requests := s.queries.SweepAuthorizationRequests(ctx)
	_, tokens := s.queries.SweepRevokedAccessTokens(ctx)
	return errors.Join(requests, tokens)
}

// disconnectUser is disconnect by the "user" or the "operator", who know whom they mean.
func (s store) disconnectUser(ctx context.Context, userID, clientID uuid.UUID, actor string) error {
	n, err := s.queries.DisconnectConnection(ctx, oauthdb.DisconnectConnectionParams{
		UserID: userID, ClientID: clientID, Actor: actor,
	})
	if err == nil && n == 0 {
		return ErrNotConnected
	}
	return err
}

// endConnectionsOfUser and endConnectionsOfClient are part of the act of another domain, in its transaction.
func endConnectionsOfUser(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error) {
	return oauthdb.New(tx).EndConnectionsOfUser(ctx, userID)
}

func endConnectionsOfClient(ctx context.Context, tx pgx.Tx, clientID uuid.UUID) (int64, error) {
	return oauthdb.New(tx).EndConnectionsOfClient(ctx, clientID)
}

func (s store) connectionsOfUser(ctx context.Context, userID uuid.UUID) ([]Connection, error) {
	rows, err := s.queries.ListConnectionsOfUser(ctx, userID)
	if err != nil {
		return nil, err
	}
	list := make([]Connection, len(rows))
	for i, row := range rows {
		list[i] = connectionOf(row)
	}
	return list, nil
}

func (s store) connectionsOfClient(ctx context.Context, clientID, after uuid.UUID, limit int32) ([]Connection, error) {
	rows, err := s.queries.ListConnectionsOfClient(ctx, oauthdb.ListConnectionsOfClientParams{
		ClientID: clientID, After: after, MaxRows: limit,
	})
	if err != nil {
		return nil, err
	}
	list := make([]Connection, len(rows))
	for i, row := range rows {
		list[i] = connectionOf(oauthdb.ListConnectionsOfUserRow(row)) // the same columns
	}
	return list, nil
}

func connectionOf(row oauthdb.ListConnectionsOfUserRow) Connection {
	return Connection{
		UserID:       row.UserID,
		ClientID:     row.ClientID,
		GrantID:      row.GrantID,
		ClientName:   row.Name,
		HomepageURL:  given(row.HomepageUrl),
		Version:      row.Version,
		State:        State(row.State),
		Scopes:       row.Scopes,
		HistoryFrom:  row.HistoryFrom,
		AuthorizedAt: row.AuthorizedAt,
		LastReadAt:   row.LastReadAt,
	}
}

func given(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
