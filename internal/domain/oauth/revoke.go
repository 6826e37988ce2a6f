package oauth

import (
	"context"
	"time"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
)

// Revoke ends a token of the client (specification 3.2, 4.5; RFC 7009). An access token ends alone. A refresh token, current or used,
// ends every token of its connection version. The consent remains. A token that is unknown, another client's, expired or already
// revoked changes nothing and is not an error. Error: ErrInvalidClient.
func (s *Server) Revoke(ctx context.Context, client Credentials, presented string) error {
	if token, err := open[accessToken](s, credential.AccessToken, presented); err == nil && token.ClientID == client.ClientID {
		return postgres.Wrap("revoke", s.revokeAccessToken(ctx, client, token))
	}
	if token, err := open[refreshToken](s, credential.RefreshToken, presented); err == nil && token.ClientID == client.ClientID {
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
		Expected:   s.pool.Expected(),
	})
	if postgres.Is(err, postgres.ForeignKeyViolation) { // the user was deleted, and the token with the user
		return nil
	}
	if err == nil && !believed {
		return postgres.ErrClock
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
		Expected: s.pool.Expected(),
	})
	return postgres.NoRowsAs(err, errWrongClient)
}
