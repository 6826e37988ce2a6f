package oauth

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
)

// Credentials are what a client says of itself with each act (specification 5.1). They are not checked yet: the statement
// that acts does that.
type Credentials struct {
	ClientID   uuid.UUID
	SecretHash [32]byte // credential.Hash of the secret
}

// NewCredentials reads the two words of a Basic header. A client ID has one spelling; every other is ErrInvalidClient.
func NewCredentials(id, secret string) (Credentials, error) {
	clientID, err := uuid.Parse(id)
	if err != nil || clientID.String() != id {
		return Credentials{}, ErrInvalidClient
	}
	return Credentials{clientID, [32]byte(credential.Hash(secret))}, nil
}

// AuthenticateClient finds out who the client is, where there is nothing else to do. It is ErrInvalidClient whatever was
// wrong: there is no such client, it is not active, or its secret is another.
func (s *Server) AuthenticateClient(ctx context.Context, client Credentials) error {
	known, err := s.store.authenticates(ctx, client)
	if err != nil {
		return fmt.Errorf("authenticate client: %w", err)
	}
	if !known {
		return ErrInvalidClient
	}
	return nil
}

// refuse is the answer to an act that did nothing: the client is wrong, or else what was asked for is.
func (s *Server) refuse(ctx context.Context, client Credentials, refusal error) error {
	if err := s.AuthenticateClient(ctx, client); err != nil {
		return err
	}
	return refusal
}
