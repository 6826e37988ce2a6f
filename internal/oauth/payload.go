package oauth

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/scope"
)

// The payloads of credentials: fixed-size binary, big-endian, fields in this order. They are never changed: a new
// form is a new credential.Kind. Instants are microseconds since 1970, which is what PostgreSQL can hold.

// authorizationCode is bound to everything that the exchange must match (specification 3.1). The connection must
// still have Version; 0 stands for no connection yet.
type authorizationCode struct {
	UserID        uuid.UUID
	ClientID      uuid.UUID
	Version       int64
	Scopes        scope.Set
	ConsentDay    int64 // midnight UTC of the user's calendar day
	CodeChallenge [sha256.Size]byte
	RedirectURI   [sha256.Size]byte // its hash: the address itself may be as long as a code
	ExpiresAt     int64
}

// accessToken names the connection's version that it reads for.
type accessToken struct {
	UserID    uuid.UUID
	ClientID  uuid.UUID
	TokenID   uuid.UUID
	Version   int64
	ExpiresAt int64
}

// refreshToken names its place in the chain of a connection's version. It is current while the row has its generation
// and its hash.
type refreshToken struct {
	UserID     uuid.UUID
	ClientID   uuid.UUID
	Version    int64
	Generation int64
}

// seal makes a credential of one of the payloads above.
func (s *Server) seal(kind credential.Kind, payload any) (string, error) {
	text, err := binary.Append(nil, binary.BigEndian, payload)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kind, err)
	}
	return s.keys.Seal(kind, text)
}

// open reads a credential of a kind. Whatever is not one is credential.ErrInvalid.
func open[Payload any](s *Server, kind credential.Kind, value string) (Payload, error) {
	var payload Payload
	text, err := s.keys.Open(kind, value)
	if err != nil {
		return payload, err
	}
	if n, err := binary.Decode(text, binary.BigEndian, &payload); err != nil || n != len(text) {
		return payload, credential.ErrInvalid
	}
	return payload, nil
}
