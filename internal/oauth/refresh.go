package oauth

import (
	"context"
	"errors"
	"fmt"

	"connect-svc/internal/credential"
)

// Refresh rotates a refresh token (specification 3.2, 4.4). Of many calls with one token at most one gets new tokens.
//
// Errors: ErrInvalidClient if the credentials are wrong; nothing has changed. ErrInvalidGrant if the token is not the current
// one of an authorized connection of this client, or the client may no longer have its scopes; ErrLapsed, an ErrInvalidGrant, if
// the connection was not refreshed in time; ErrReplayed, another, if the token was current before: then the family has been
// revoked, including the tokens that another call got a moment ago.
func (s *Server) Refresh(ctx context.Context, client Credentials, presented string) (Tokens, error) {
	token, err := open[refreshToken](s, credential.RefreshToken, presented)
	if err != nil {
		return Tokens{}, s.refuse(ctx, client, "refresh_token is none of this service, or was altered")
	}
	if token.ClientID != client.ClientID {
		return Tokens{}, s.refuse(ctx, client, "refresh_token is another client's")
	}
	ctx = inLineOf(ctx, token.ClientID)
	successor := token
	successor.Generation++
	next, err := s.seal(credential.RefreshToken, successor)
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	unlock, err := s.turns.Lock(ctx, row{token.UserID, token.ClientID})
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	defer unlock()
	var connection granted
	for err = errPossible; errors.Is(err, errPossible); {
		connection, err = s.rotate(ctx, client, token, credential.Hash(presented), credential.Hash(next), s.settings.RefreshInactivity)
		if errors.Is(err, errNothingDone) {
			err = s.refuseRefresh(ctx, client, token, credential.Hash(presented))
		}
	}
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	return s.issue(token.UserID, token.ClientID, connection, next)
}
