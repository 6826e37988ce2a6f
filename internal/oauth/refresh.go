package oauth

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
)

// Refresh rotates a refresh token (specification 3.2, 4.4): of many calls with one token at most one gets new tokens.
//
// It is ErrInvalidGrant when the token is not the current one of an authorized connection of this client, whose scopes
// the client may still have. If it is one that was current before, the connection's family of credentials has been
// revoked when Refresh returns, also the tokens that another call got a moment ago.
func (s *Server) Refresh(ctx context.Context, clientID uuid.UUID, presented string) (Tokens, error) {
	tokens, err := s.TryRefresh(ctx, clientID, nil, presented)
	if !errors.Is(err, ErrInvalidGrant) {
		return tokens, err
	}
	token, err := open[refreshToken](s, credential.RefreshToken, presented)
	if err != nil || token.ClientID != clientID {
		return Tokens{}, ErrInvalidGrant
	}
	replayed, err := s.store.revokeReplayed(ctx, token)
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: revoke after replay: %w", err)
	}
	if replayed {
		return Tokens{}, ErrReplayed
	}
	return Tokens{}, s.whyRefused(ctx, token)
}

// TryRefresh authenticates the client and rotates in one round trip, as [Server.TryExchange] exchanges. When it is
// ErrInvalidGrant nothing has changed, also where the token was used before: authenticate the client, and Refresh then.
func (s *Server) TryRefresh(ctx context.Context, clientID uuid.UUID, secretHash []byte, presented string) (Tokens, error) {
	token, err := open[refreshToken](s, credential.RefreshToken, presented)
	if err != nil || token.ClientID != clientID {
		return Tokens{}, ErrInvalidGrant
	}
	successor := token
	successor.Generation++
	next, err := s.seal(credential.RefreshToken, successor)
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	connection, err := s.store.rotate(ctx, secretHash, token, credential.Hash(presented), credential.Hash(next), s.settings.RefreshInactivity)
	if errors.Is(err, ErrInvalidGrant) {
		return Tokens{}, ErrInvalidGrant
	}
	if err != nil {
		return Tokens{}, fmt.Errorf("refresh: %w", err)
	}
	return s.issue(token.UserID, token.ClientID, connection, next)
}

// whyRefused explains, to the operator alone, a refusal that has already been decided: not knowing why changes nothing.
func (s *Server) whyRefused(ctx context.Context, token refreshToken) error {
	if lapsed, err := s.store.lapsed(ctx, token); err == nil && lapsed {
		return ErrLapsed
	}
	return ErrInvalidGrant
}
