package oauth

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
)

// The payloads of credentials are fixed-size and big-endian, with the fields in this order. A changed payload needs a new
// credential.Kind. Instants are microseconds since 1970, the precision of PostgreSQL.

// authorizationCode holds everything that the exchange must match (specification 3.1). The connection must still have Version, which
// is 0 before the first exchange.
type authorizationCode struct {
	UserID        uuid.UUID
	ClientID      uuid.UUID
	Version       int64
	Scopes        scope.Set
	HistoryFrom   int64 // of the connection after the exchange: midnight UTC of a day
	CodeChallenge [sha256.Size]byte
	RedirectURI   [sha256.Size]byte // a hash, because the callback may be as long as a code
	ExpiresAt     int64
}

// accessToken names the connection version that it belongs to.
type accessToken struct {
	UserID    uuid.UUID
	ClientID  uuid.UUID
	TokenID   uuid.UUID
	Version   int64
	ExpiresAt int64
}

// refreshToken is one generation of a connection version. It is current while the connection's row has its generation and its hash. The
// other fields restore a row that has lost commits.
type refreshToken struct {
	UserID      uuid.UUID
	ClientID    uuid.UUID
	Version     int64
	Generation  int64
	IssuedAt    int64 // by the server's clock
	Scopes      scope.Set
	HistoryFrom int64 // midnight UTC of a day
}

// seal makes a credential of a payload.
func (s *Server) seal(kind credential.Kind, payload any) (string, error) {
	text, err := binary.Append(nil, binary.BigEndian, payload)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kind, err)
	}
	return s.keys.Seal(kind, text)
}

// open reads a credential of a kind. Error: credential.ErrInvalid if it is not one.
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
