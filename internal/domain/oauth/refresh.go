package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Refresh rotates a refresh token (specification 3.2, 4.4). At most one of several calls with the same token gets new tokens.
//
// A token may be of a later version or generation than its connection: then the database was restored from a backup, or a replica took
// over without the last commits. The token proves what was lost, and Refresh restores it. A connection that has ended stays ended.
//
// Errors: ErrInvalidClient if the credentials are wrong; nothing has changed. ErrInvalidGrant if the token is not the current one of an
// authorized connection of this client, or the client is no longer registered for its scopes. ErrLapsed, an ErrInvalidGrant, if the
// connection was not refreshed in time. ErrReplayed, an ErrInvalidGrant, if the token was current before: the family has been revoked,
// including tokens that another call received a moment ago. With an ErrInvalidGrant of a token whose user is there the result has the GrantID.
func (s *Server) Refresh(ctx context.Context, client Credentials, presented string) (Tokens, error) {
	token, err := credential.OpenAs[refreshToken](s.keys, credential.RefreshToken, presented)
	if err != nil {
		return Tokens{}, s.refuse(ctx, client, "refresh_token was not issued by this service, or was altered")
	}
	if token.ClientID != client.ClientID {
		return Tokens{}, s.refuse(ctx, client, "refresh_token is another client's")
	}
	ctx = asClient(ctx, token.ClientID)
	successor := token
	successor.Generation++
	successor.IssuedAt = s.settings.Now().UnixMicro()
	next, err := s.keys.Seal(credential.RefreshToken, successor)
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	unlock, err := s.connections.Lock(ctx, connectionKey{token.UserID, token.ClientID})
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	defer unlock()
	for round := 1; ; round++ {
		row, err := s.queries.RotateRefreshToken(ctx, oauthdb.RotateRefreshTokenParams{
			UserID:        token.UserID,
			ClientID:      token.ClientID,
			SecretHash:    client.SecretHash[:],
			Version:       token.Version,
			Generation:    token.Generation,
			PresentedHash: credential.Hash(presented),
			NewHash:       credential.Hash(next),
			Inactivity:    s.settings.RefreshInactivity,
		})
		var refused Tokens
		if errors.Is(err, pgx.ErrNoRows) {
			refused.GrantID, err = s.refuseRefresh(ctx, client, token, presented)
		}
		if errors.Is(err, errRecoverable) {
			row, err = s.recover(ctx, client, token, next)
		}
		if err == nil {
			return s.withAccessToken(Tokens{
				GrantID: row.GrantID, HistoryFrom: row.HistoryFrom, ConnectionVersion: row.Version, RefreshToken: next, Scopes: row.Scopes,
			}, token.UserID, token.ClientID, row.RefreshDeadline.Add(-s.settings.RefreshInactivity))
		}
		if !errors.Is(err, errRepeat) || round == rounds {
			return refused, fmt.Errorf("refresh: %w", err)
		}
	}
}

// errRecoverable says that a refresh token is ahead of its connection, whose row lacks commits.
var errRecoverable = errors.New("recoverable")

// recover rotates a refresh token that is ahead of its connection. Error: errRepeat if the connection has changed since it was found
// recoverable.
func (s *Server) recover(ctx context.Context, client Credentials, token refreshToken, next string) (oauthdb.RotateRefreshTokenRow, error) {
	row, err := s.queries.RecoverConnection(ctx, oauthdb.RecoverConnectionParams{
		UserID:      token.UserID,
		ClientID:    token.ClientID,
		SecretHash:  client.SecretHash[:],
		Version:     token.Version,
		Generation:  token.Generation,
		IssuedAt:    time.UnixMicro(token.IssuedAt),
		Scopes:      token.Scopes,
		HistoryFrom: time.Unix(token.HistoryFrom, 0).UTC(),
		NewHash:     credential.Hash(next),
		Inactivity:  s.settings.RefreshInactivity,
	})
	return oauthdb.RotateRefreshTokenRow(row), postgres.NoRowsAs(err, errRepeat)
}

// refuseRefresh returns why a refresh changed nothing, and revokes the family if the token was current before: ErrInvalidClient,
// ErrReplayed, ErrLapsed, ErrInvalidGrant, errRepeat, errRecoverable, or a failure to find out. The grant is the connection's; uuid.Nil: the client
// has not authenticated, or the user was deleted.
func (s *Server) refuseRefresh(ctx context.Context, client Credentials, token refreshToken, presented string) (uuid.UUID, error) {
	row, err := s.queries.RefuseRefresh(ctx, oauthdb.RefuseRefreshParams{
		UserID:        token.UserID,
		ClientID:      token.ClientID,
		SecretHash:    client.SecretHash[:],
		Version:       token.Version,
		Generation:    token.Generation,
		PresentedHash: credential.Hash(presented),
		IssuedAt:      time.UnixMicro(token.IssuedAt),
		Scopes:        token.Scopes,
		Inactivity:    s.settings.RefreshInactivity,
	})
	if err != nil {
		return uuid.Nil, postgres.NoRowsAs(err, errWrongClient)
	}
	grant := row.GrantID
	switch {
	case row.Replayed:
		return grant, ErrReplayed
	case !row.Believed:
		return grant, clock.ErrDoubted
	case row.Recoverable:
		return grant, errRecoverable
	case row.Lapsed:
		return grant, refusal.Because(ErrLapsed, whyEnded("lapsed", time.UnixMicro(token.IssuedAt).Add(s.settings.RefreshInactivity)))
	case row.Possible:
		return grant, errRepeat
	}
	end, err := s.queries.EndOfVersion(ctx, oauthdb.EndOfVersionParams{UserID: token.UserID, ClientID: token.ClientID, Version: token.Version})
	if err != nil { // the token is refused nevertheless, with a reason that says less
		return grant, refusal.Because(ErrInvalidGrant, row.Reason)
	}
	return grant, refusal.Because(ErrInvalidGrant, whyEnded(end.Reason, end.At))
}

// ended says of each end of a connection what happened.
var ended = map[string]string{
	"replaced":               "the user connected again on %s, and so there is a later refresh token",
	"lapsed":                 "the connection lapsed on %s: it was not refreshed in time",
	"account_deleted":        "the user was deleted on %s",
	"client_disconnected":    "the client disconnected on %s",
	"client_offboarded":      "the client was offboarded on %s",
	"operator_disconnected":  "the operator disconnected on %s",
	"operator_revoked":       "the operator revoked all tokens of the client on %s",
	"refresh_token_replayed": "the connection was revoked on %s, because a used refresh token was presented again",
	"refresh_token_revoked":  "the client revoked the connection on %s",
	"user_disconnected":      "the user disconnected on %s",
}

// whyEnded returns the true reason of a refusal after an end (connection_end of the migrations), with its day in UTC.
func whyEnded(end string, at time.Time) string {
	return fmt.Sprintf(ended[end], at.UTC().Format(time.DateOnly))
}

// Revoke ends a token of the client (specification 3.2, 4.5; RFC 7009). An access token ends alone. A refresh token, current or used,
// ends every token of its connection version. The consent remains. A token that is unknown, another client's, expired or already
// revoked changes nothing and is not an error. Error: ErrInvalidClient.
func (s *Server) Revoke(ctx context.Context, client Credentials, presented string) error {
	if token, err := credential.OpenAs[accessToken](s.keys, credential.AccessToken, presented); err == nil && token.ClientID == client.ClientID {
		return postgres.Wrap("revoke", s.revokeAccessToken(ctx, client, token))
	}
	if token, err := credential.OpenAs[refreshToken](s.keys, credential.RefreshToken, presented); err == nil && token.ClientID == client.ClientID {
		return postgres.Wrap("revoke", s.revokeFamily(ctx, client, token))
	}
	return postgres.Wrap("revoke", s.AuthenticateClient(ctx, client))
}

func (s *Server) revokeAccessToken(ctx context.Context, client Credentials, token accessToken) error {
	believed, err := s.queries.RevokeAccessToken(asClient(ctx, token.ClientID), oauthdb.RevokeAccessTokenParams{
		UserID:     token.UserID,
		ClientID:   token.ClientID,
		SecretHash: client.SecretHash[:],
		Version:    token.Version,
		TokenID:    token.TokenID,
		ExpiresAt:  time.UnixMicro(token.ExpiresAt),
	})
	if postgres.Is(err, postgres.ForeignKeyViolation) { // the user was deleted, and the token with the user
		return nil
	}
	if err == nil && !believed {
		return clock.ErrDoubted
	}
	return postgres.NoRowsAs(err, errWrongClient)
}

// revokeFamily ends every token of the version that a refresh token names.
func (s *Server) revokeFamily(ctx context.Context, client Credentials, token refreshToken) error {
	ctx = asClient(ctx, token.ClientID)
	unlock, err := s.connections.Lock(ctx, connectionKey{token.UserID, token.ClientID})
	if err != nil {
		return err
	}
	defer unlock()
	_, err = s.queries.RevokeConnection(ctx, oauthdb.RevokeConnectionParams{
		UserID: token.UserID, ClientID: token.ClientID, SecretHash: client.SecretHash[:], Version: token.Version,
		Generation: token.Generation, IssuedAt: time.UnixMicro(token.IssuedAt), Scopes: token.Scopes,
		HistoryFrom: time.Unix(token.HistoryFrom, 0).UTC(), Inactivity: s.settings.RefreshInactivity,
	})
	return postgres.NoRowsAs(err, errWrongClient)
}
