package oauth

import (
	"context"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
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
