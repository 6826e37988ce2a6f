package oauth

import (
	"context"

	"github.com/google/uuid"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

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

// credentialsPerStatement bounds how many credentials one statement checks.
const credentialsPerStatement = 500

// authenticateClients returns which of the credentials are right.
func (s *Server) authenticateClients(ctx context.Context, given []Credentials) (map[Credentials]struct{}, error) {
	rows, err := s.queries.AuthenticateClients(ctx, oauthdb.AuthenticateClientsParams{
		ClientIds:    postgres.Map(given, func(c Credentials) uuid.UUID { return c.ClientID }),
		SecretHashes: postgres.Map(given, func(c Credentials) []byte { return c.SecretHash[:] }),
		Expected:     s.pool.Expected(),
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
