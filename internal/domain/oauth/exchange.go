package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

// ExchangeParams are the fields of a code exchange (specification 4.3). The caller has checked their syntax.
type ExchangeParams struct {
	Code         string
	RedirectURI  string
	CodeVerifier string
}

// Exchange turns a code into the first tokens of a new connection version (specification 3.1). After these errors nothing has changed:
// ErrInvalidClient if the credentials are wrong; ErrInvalidGrant if the code is unknown, expired or used, or is not bound to these
// parameters and the connection's current version.
func (s *Server) Exchange(ctx context.Context, client Credentials, params ExchangeParams) (Tokens, error) {
	code, err := open[authorizationCode](s, credential.AuthorizationCode, params.Code)
	switch {
	case err != nil:
		return Tokens{}, s.refuse(ctx, client, "code was not issued by this service, or was altered")
	case code.ClientID != client.ClientID:
		return Tokens{}, s.refuse(ctx, client, "code is another client's")
	case code.RedirectURI != sha256.Sum256([]byte(params.RedirectURI)):
		return Tokens{}, s.refuse(ctx, client, "redirect_uri is not the one of the authorization request")
	case !verifies(params.CodeVerifier, code.CodeChallenge):
		return Tokens{}, s.refuse(ctx, client, "code_verifier does not match code_challenge of the authorization request")
	}
	ctx = asClient(ctx, code.ClientID)
	next, err := s.seal(credential.RefreshToken, refreshToken{
		UserID: code.UserID, ClientID: code.ClientID, Version: code.Version + 1, Generation: 1,
		IssuedAt: s.settings.Now().UnixMicro(), Scopes: code.Scopes, HistoryFrom: code.HistoryFrom,
	})
	if err != nil {
		return Tokens{}, fmt.Errorf("exchange: %w", err)
	}
	unlock, err := s.connections.Lock(ctx, connectionKey{code.UserID, code.ClientID})
	if err != nil {
		return Tokens{}, fmt.Errorf("exchange: %w", err)
	}
	defer unlock()
	for {
		row, err := s.queries.AuthorizeConnection(ctx, oauthdb.AuthorizeConnectionParams{
			UserID:        code.UserID,
			ClientID:      code.ClientID,
			SecretHash:    client.SecretHash[:],
			CodeVersion:   code.Version,
			CodeExpiresAt: time.UnixMicro(code.ExpiresAt),
			RedirectUri:   params.RedirectURI,
			Scopes:        code.Scopes,
			HistoryFrom:   time.Unix(code.HistoryFrom, 0).UTC(),
			RefreshHash:   credential.Hash(next),
			Inactivity:    s.settings.RefreshInactivity,
			Expected:      s.pool.Expected(),
		})
		if err == nil {
			return s.withAccessToken(Tokens{
				GrantID: row.GrantID, HistoryFrom: row.HistoryFrom, ConnectionVersion: row.Version, RefreshToken: next, Scopes: row.Scopes,
			}, code.UserID, code.ClientID, row.AuthorizedAt)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			err = s.refuseExchange(ctx, client, code, params.RedirectURI)
		}
		if !errors.Is(err, errRepeat) {
			return Tokens{}, fmt.Errorf("exchange: %w", err)
		}
	}
}

// errRepeat says that an act changed nothing and would succeed now: the client was enabled, or its secret replaced, in between.
var errRepeat = errors.New("possible by now")

// refuseExchange returns why an exchange changed nothing: ErrInvalidClient, ErrInvalidGrant, errRepeat, or a failure to find out.
func (s *Server) refuseExchange(ctx context.Context, client Credentials, code authorizationCode, redirectURI string) error {
	found, err := s.queries.RefuseExchange(ctx, oauthdb.RefuseExchangeParams{
		UserID:        code.UserID,
		ClientID:      code.ClientID,
		SecretHash:    client.SecretHash[:],
		CodeVersion:   code.Version,
		CodeExpiresAt: time.UnixMicro(code.ExpiresAt),
		RedirectUri:   redirectURI,
		Scopes:        code.Scopes,
		Expected:      s.pool.Expected(),
	})
	switch {
	case err != nil:
		return postgres.NoRowsAs(err, errWrongClient)
	case !found.Believed:
		return postgres.ErrClock
	case found.Possible:
		return errRepeat
	}
	return refusal.Because(ErrInvalidGrant, found.Reason)
}

// verifies applies the S256 transformation of RFC 7636, section 4.6.
func verifies(verifier string, challenge [sha256.Size]byte) bool {
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare(sum[:], challenge[:]) == 1
}
