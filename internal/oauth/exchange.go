package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
)

// ExchangeParams are the fields of a code exchange (specification 4.3), in the shapes that it names.
type ExchangeParams struct {
	Code         string
	RedirectURI  string
	CodeVerifier string
}

// Exchange turns a code into the first tokens of a new connection version (specification 3.1). It is ErrInvalidGrant
// when the code is unknown, expired, used, or bound to anything else than the parameters and the connection's present
// version; nothing has changed then.
func (s *Server) Exchange(ctx context.Context, clientID uuid.UUID, params ExchangeParams) (Tokens, error) {
	return s.TryExchange(ctx, clientID, nil, params)
}

// TryExchange authenticates the client and exchanges in one round trip: it is [Server.Exchange] if the client is active
// and its secret has this hash. When it is ErrInvalidGrant nothing has changed, and it may be the client that was wrong:
// authenticate it, and exchange then.
func (s *Server) TryExchange(ctx context.Context, clientID uuid.UUID, secretHash []byte, params ExchangeParams) (Tokens, error) {
	code, err := open[authorizationCode](s, credential.AuthorizationCode, params.Code)
	if err != nil || code.ClientID != clientID || code.RedirectURI != sha256.Sum256([]byte(params.RedirectURI)) ||
		!verifies(params.CodeVerifier, code.CodeChallenge) {
		return Tokens{}, ErrInvalidGrant
	}
	next, err := s.seal(credential.RefreshToken, refreshToken{
		UserID: code.UserID, ClientID: code.ClientID, Version: code.Version + 1, Generation: 1,
	})
	if err != nil {
		return Tokens{}, fmt.Errorf("exchange: %w", err)
	}
	connection, err := s.store.authorize(ctx, secretHash, code, params.RedirectURI, credential.Hash(next), s.settings.RefreshInactivity)
	if errors.Is(err, ErrInvalidGrant) {
		return Tokens{}, ErrInvalidGrant
	}
	if err != nil {
		return Tokens{}, fmt.Errorf("exchange: %w", err)
	}
	return s.issue(code.UserID, code.ClientID, connection, next)
}

// verifies is the S256 transformation of RFC 7636, section 4.6.
func verifies(verifier string, challenge [sha256.Size]byte) bool {
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare(sum[:], challenge[:]) == 1
}
