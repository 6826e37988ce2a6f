package oauth

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
)

// Revoke ends a token of the client (specification 3.2, 4.5; RFC 7009): an access token by itself, a refresh token,
// current or used, with every token of its connection version. The consent remains. A token that is unknown, another
// client's, expired or revoked already is no error and changes nothing.
func (s *Server) Revoke(ctx context.Context, clientID uuid.UUID, presented string) error {
	_, err := s.TryRevoke(ctx, clientID, nil, presented)
	return err
}

// TryRevoke authenticates the client and revokes in one round trip, as [Server.TryExchange] exchanges. Where nothing was
// done it is not known whether the client is who it says: authenticate it then, and Revoke.
func (s *Server) TryRevoke(ctx context.Context, clientID uuid.UUID, secretHash []byte, presented string) (done bool, err error) {
	if token, err := open[accessToken](s, credential.AccessToken, presented); err == nil && token.ClientID == clientID {
		done, err := s.store.revokeAccessToken(ctx, secretHash, token)
		if err != nil {
			return false, fmt.Errorf("revoke access token: %w", err)
		}
		return done, nil
	}
	if token, err := open[refreshToken](s, credential.RefreshToken, presented); err == nil && token.ClientID == clientID {
		done, err := s.store.revoke(ctx, secretHash, token)
		if err != nil {
			return false, fmt.Errorf("revoke refresh token: %w", err)
		}
		return done, nil
	}
	return false, nil
}

// Disconnect ends the client's connection that has this grant (specification 3.2, 4.10): all its codes and tokens stop
// working, and a later connection needs fresh consent. A grant that is unknown or another client's is no error and
// changes nothing.
func (s *Server) Disconnect(ctx context.Context, clientID, grantID uuid.UUID) error {
	if err := s.store.disconnect(ctx, clientID, grantID); err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}
