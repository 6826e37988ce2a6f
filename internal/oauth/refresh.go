package oauth

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
)

// Refresh rotates a refresh token (specification 3.2, 4.4). At most one of several calls with the same token gets new tokens.
//
// Errors: ErrInvalidClient if the credentials are wrong; nothing has changed. ErrInvalidGrant if the token is not the current one of an
// authorized connection of this client, or the client is no longer registered for its scopes. ErrLapsed, an ErrInvalidGrant, if the
// connection was not refreshed in time. ErrReplayed, an ErrInvalidGrant, if the token was current before: the family has been revoked,
// including tokens that another call received a moment ago.
func (s *Server) Refresh(ctx context.Context, client Credentials, presented string) (Tokens, error) {
	token, err := open[refreshToken](s, credential.RefreshToken, presented)
	if err != nil {
		return Tokens{}, s.refuse(ctx, client, "refresh_token was not issued by this service, or was altered")
	}
	if token.ClientID != client.ClientID {
		return Tokens{}, s.refuse(ctx, client, "refresh_token is another client's")
	}
	ctx = asClient(ctx, token.ClientID)
	successor := token
	successor.Generation++
	next, err := s.seal(credential.RefreshToken, successor)
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	unlock, err := s.connections.Lock(ctx, connectionKey{token.UserID, token.ClientID})
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	defer unlock()
	for {
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
		if err == nil {
			return s.withAccessToken(Tokens{
				GrantID: row.GrantID, HistoryFrom: row.HistoryFrom, ConnectionVersion: row.Version, RefreshToken: next, Scopes: row.Scopes,
			}, token.UserID, token.ClientID, row.RefreshDeadline.Add(-s.settings.RefreshInactivity))
		}
		if errors.Is(err, pgx.ErrNoRows) {
			err = s.refuseRefresh(ctx, client, token, presented)
		}
		if !errors.Is(err, errRepeat) {
			return Tokens{}, fmt.Errorf("refresh: %w", err)
		}
	}
}

// refuseRefresh returns why a refresh changed nothing, and revokes the family if the token was current before: ErrInvalidClient,
// ErrReplayed, ErrLapsed, ErrInvalidGrant, errRepeat, or a failure to find out.
func (s *Server) refuseRefresh(ctx context.Context, client Credentials, token refreshToken, presented string) error {
	found, err := s.queries.RefuseRefresh(ctx, oauthdb.RefuseRefreshParams{
		UserID:        token.UserID,
		ClientID:      token.ClientID,
		SecretHash:    client.SecretHash[:],
		Version:       token.Version,
		Generation:    token.Generation,
		PresentedHash: credential.Hash(presented),
	})
	switch {
	case err != nil:
		return postgres.NoRowsAs(err, errWrongClient)
	case found.Replayed:
		return ErrReplayed
	case found.Lapsed:
		return ErrLapsed
	case found.Possible:
		return errRepeat
	}
	return refusal.Because(ErrInvalidGrant, found.Reason)
}
