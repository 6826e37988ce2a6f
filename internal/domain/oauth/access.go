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
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Access is what the bearer of an access token may read: the scopes and dates (midnights UTC), the client's rate policy (specification
// section 8), and Now by the database's clock.
type Access struct {
	UserID, ClientID  uuid.UUID
	ConnectionVersion int64
	oauthdb.AuthenticateAccessRow
}

// Authenticate returns what the bearer of an access token may read now. ErrInvalidAccessToken stands for every case of specification
// 5.2: the token is malformed, expired or revoked; its connection has another version, or is revoked, disconnected or lapsed; the user
// was deleted; or the client is not active.
//
// With that error ClientID is set if the token was issued to a client, even if it gives no access any more, and GrantID if its user is there.
func (s *Server) Authenticate(ctx context.Context, presented string) (Access, error) {
	token, err := credential.OpenAs[accessToken](s.keys, credential.AccessToken, presented)
	if err != nil {
		return Access{}, refusal.Because(ErrInvalidAccessToken, "the access token was not issued by this service, or was altered")
	}
	ctx = asClient(ctx, token.ClientID)
	params := oauthdb.AuthenticateAccessParams{
		UserID:    token.UserID,
		ClientID:  token.ClientID,
		TokenID:   token.TokenID,
		Version:   token.Version,
		ExpiresAt: time.UnixMicro(token.ExpiresAt),
	}
	access := Access{UserID: token.UserID, ClientID: token.ClientID, ConnectionVersion: token.Version}
	row, err := s.queries.AuthenticateAccess(ctx, params)
	if errors.Is(err, pgx.ErrNoRows) { // or a cluster placed the table after the statement took its snapshot, which sees no row of it
		row, err = s.queries.AuthenticateAccess(ctx, params)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = refusal.Because(ErrInvalidAccessToken, "the user was deleted")
	case err == nil && !row.Believed:
		err = clock.ErrDoubted
	case err == nil && row.Refusal != "":
		err = refusal.Because(ErrInvalidAccessToken, row.Refusal)
	}
	if err != nil {
		refused := Access{ClientID: token.ClientID}
		refused.GrantID = row.GrantID
		return refused, fmt.Errorf("authenticate: %w", err)
	}
	access.AuthenticateAccessRow = row
	return access, nil
}

// Tokens are the response to an exchange or a refresh (specification 2.3).
type Tokens struct {
	GrantID           uuid.UUID
	HistoryFrom       time.Time // a date: midnight UTC
	ConnectionVersion int64
	AccessToken       string
	ExpiresIn         int // seconds, 1 to 300
	RefreshToken      string
	Scopes            scope.Set
}

// withAccessToken adds the access token to the tokens of a connection whose refresh token has just been stored.
func (s *Server) withAccessToken(tokens Tokens, userID, clientID uuid.UUID, now time.Time) (Tokens, error) {
	var err error
	tokens.AccessToken, err = s.keys.Seal(credential.AccessToken, accessToken{
		UserID:    userID,
		ClientID:  clientID,
		TokenID:   uuid.New(),
		Version:   tokens.ConnectionVersion,
		ExpiresAt: now.Add(s.settings.AccessTokenLifetime).UnixMicro(),
	})
	if err != nil {
		return Tokens{}, err
	}
	tokens.ExpiresIn = int(s.settings.AccessTokenLifetime / time.Second)
	return tokens, nil
}

// Credentials are a client's id and the hash of its secret (specification 5.1). The statement of each act checks them.
type Credentials struct {
	ClientID   uuid.UUID
	SecretHash [32]byte // credential.Hash of the secret
}

// NewCredentials takes the id and the secret of a Basic header. An id that is not a UUID in its canonical form is
// ErrInvalidClient.
func NewCredentials(id, secret string) (Credentials, error) {
	clientID, err := uuid.Parse(id)
	if err != nil || clientID.String() != id {
		return Credentials{}, refusal.Because(ErrInvalidClient, "client_id is no UUID in lower case")
	}
	return Credentials{clientID, [32]byte(credential.Hash(secret))}, nil
}

// AuthenticateClient only checks the credentials. Concurrent calls share a statement that does not wait in any client's queue, so
// wrong credentials cost no client anything. Error: ErrInvalidClient.
func (s *Server) AuthenticateClient(ctx context.Context, client Credentials) error {
	_, right, err := s.credentials.Ask(ctx, client)
	if err == nil && !right {
		return errWrongClient
	}
	return postgres.Wrap("authenticate client", err)
}

// authenticateClients returns which of the credentials are right.
func (s *Server) authenticateClients(ctx context.Context, given []Credentials) (map[Credentials]struct{}, error) {
	rows, err := s.queries.AuthenticateClients(ctx, oauthdb.AuthenticateClientsParams{
		ClientIds:    postgres.Map(given, func(c Credentials) uuid.UUID { return c.ClientID }),
		SecretHashes: postgres.Map(given, func(c Credentials) []byte { return c.SecretHash[:] }),
	})
	right := make(map[Credentials]struct{}, len(rows))
	for _, row := range rows {
		right[Credentials{row.ClientID, [32]byte(row.SecretHash)}] = struct{}{}
	}
	return right, err
}

// asClient makes the statements of an act wait in the queue of a client that has authenticated: by its credentials, or by a sealed
// credential that only this client received.
func asClient(ctx context.Context, clientID uuid.UUID) context.Context {
	return work.WithCaller(ctx, work.Caller{Kind: work.Partners, Name: clientID.String()})
}

// errWrongClient does not say what was wrong, because the statements do not return it.
var errWrongClient = refusal.Because(ErrInvalidClient, "client_id or client_secret is wrong, or the client is not active")

// refuse returns ErrInvalidClient if the credentials are wrong, otherwise ErrInvalidGrant with this reason.
func (s *Server) refuse(ctx context.Context, client Credentials, reason string) error {
	if err := s.AuthenticateClient(ctx, client); err != nil {
		return err
	}
	return refusal.Because(ErrInvalidGrant, reason)
}
