package oauth

import (
	"context"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
)

// Credentials are a client's id and the hash of its secret (specification 5.1). They have not been checked: the statement of the
// act does that.
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

// proofsAtOnce is how many credentials are checked by one statement.
const proofsAtOnce = 500

// AuthenticateClient checks the credentials and does nothing else. All who ask at a time share a statement, which no line of a
// client waits for: so wrong credentials cost nobody else anything. ErrInvalidClient does not say what was wrong: the id, the
// secret, or that the client is not active.
func (s *Server) AuthenticateClient(ctx context.Context, client Credentials) error {
	_, right, err := s.proofs.Ask(ctx, client)
	if err == nil && !right {
		return errWrongClient
	}
	return postgres.Failed("authenticate client", err)
}

// inLineOf has the statements of an act wait in the line of a client that has proved itself: by credentials, or by something
// sealed that was given to this client alone.
func inLineOf(ctx context.Context, clientID uuid.UUID) context.Context {
	return fairqueue.WithCaller(ctx, fairqueue.Caller{Kind: fairqueue.Partners, Name: clientID.String()})
}

// errWrongClient does not say what was wrong: the statements that act do not ask.
var errWrongClient = refusal.Because(ErrInvalidClient, "client_id or client_secret is wrong, or the client is not active")

// refuse is the error of an act that did nothing: ErrInvalidClient if the credentials are wrong, else ErrInvalidGrant for
// this reason.
func (s *Server) refuse(ctx context.Context, client Credentials, reason string) error {
	if err := s.AuthenticateClient(ctx, client); err != nil {
		return err
	}
	return refusal.Because(ErrInvalidGrant, reason)
}
