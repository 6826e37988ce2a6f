package oauth

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
)

// Revoke ends a token of the client (specification 3.2, 4.5; RFC 7009): an access token by itself, a refresh token,
// current or used, with every token of its connection version. The consent remains. A token that is unknown, another
// client's, expired or revoked already is no error and changes nothing. Error: ErrInvalidClient.
func (s *Server) Revoke(ctx context.Context, client Credentials, presented string) error {
	return postgres.Failed("revoke", s.revoke(ctx, client, presented))
}

func (s *Server) revoke(ctx context.Context, client Credentials, presented string) error {
	if token, err := open[accessToken](s, credential.AccessToken, presented); err == nil && token.ClientID == client.ClientID {
		return s.revokeAccessToken(inLineOf(ctx, token.ClientID), client, token)
	}
	token, err := open[refreshToken](s, credential.RefreshToken, presented)
	if err != nil || token.ClientID != client.ClientID {
		return s.AuthenticateClient(ctx, client)
	}
	ctx = inLineOf(ctx, token.ClientID)
	unlock, err := s.turns.Lock(ctx, row{token.UserID, token.ClientID})
	if err != nil {
		return err
	}
	defer unlock()
	return s.store.revoke(ctx, client, token)
}

// Disconnect ends the client's connection that has this grant (specification 3.2, 4.10): all its codes and tokens stop
// working, and a later connection needs fresh consent. A grant that is unknown or another client's is no error and
// changes nothing. Error: ErrInvalidClient.
func (s *Server) Disconnect(ctx context.Context, client Credentials, grantID uuid.UUID) error {
	if err := s.AuthenticateClient(ctx, client); err != nil { // a grant's id proves nothing
		return err
	}
	ctx = inLineOf(ctx, client.ClientID)
	userID, err := s.findGrant(ctx, client, grantID)
	if err == nil && userID != nil {
		err = s.disconnect(ctx, *userID, client.ClientID, "client")
	}
	if errors.Is(err, ErrNotConnected) { // it was deleted meanwhile
		return nil
	}
	return postgres.Failed("disconnect", err)
}
