package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"

	"connect-svc/internal/credential"
)

// errNothingDone says that the conditions of an act did not hold, and that nothing has changed. It is not known which.
var errNothingDone = errors.New("nothing done")

// errPossible says that an act that did nothing would be done now: the client was enabled, or got its secret, a moment ago.
var errPossible = errors.New("possible by now")

// ExchangeParams are the fields of a code exchange (specification 4.3), in the shapes that it names.
type ExchangeParams struct {
	Code         string
	RedirectURI  string
	CodeVerifier string
}

// Exchange turns a code into the first tokens of a new connection version (specification 3.1). Errors, after
// which nothing has changed: ErrInvalidClient if the credentials are wrong; ErrInvalidGrant if the code is unknown, expired or
// used, or is not bound to these parameters and the connection's present version.
func (s *Server) Exchange(ctx context.Context, client Credentials, params ExchangeParams) (Tokens, error) {
	code, err := open[authorizationCode](s, credential.AuthorizationCode, params.Code)
	switch {
	case err != nil:
		return Tokens{}, s.refuse(ctx, client, "code is none of this service, or was altered")
	case code.ClientID != client.ClientID:
		return Tokens{}, s.refuse(ctx, client, "code is another client's")
	case code.RedirectURI != sha256.Sum256([]byte(params.RedirectURI)):
		return Tokens{}, s.refuse(ctx, client, "redirect_uri is not the one of the authorization request")
	case !verifies(params.CodeVerifier, code.CodeChallenge):
		return Tokens{}, s.refuse(ctx, client, "code_verifier does not match code_challenge of the authorization request")
	}
	ctx = inLineOf(ctx, code.ClientID)
	next, err := s.seal(credential.RefreshToken, refreshToken{
		UserID: code.UserID, ClientID: code.ClientID, Version: code.Version + 1, Generation: 1,
	})
	if err != nil {
		return Tokens{}, fmt.Errorf("exchange: %w", err)
	}
	unlock, err := s.turns.Lock(ctx, row{code.UserID, code.ClientID})
	if err != nil {
		return Tokens{}, fmt.Errorf("exchange: %w", err)
	}
	defer unlock()
	var connection granted
	for err = errPossible; errors.Is(err, errPossible); {
		connection, err = s.authorize(ctx, client, code, params.RedirectURI, credential.Hash(next), s.settings.RefreshInactivity)
		if errors.Is(err, errNothingDone) {
			err = s.refuseExchange(ctx, client, code, params.RedirectURI)
		}
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
