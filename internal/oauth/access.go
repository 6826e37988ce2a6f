package oauth

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/refusal"
	"connect-svc/internal/scope"
)

// Access is what the bearer of an access token may do.
type Access struct {
	UserID, ClientID  uuid.UUID
	GrantID           uuid.UUID
	ConnectionVersion int64
	Scopes            scope.Set
	HistoryFrom       time.Time // the first readable date: midnight UTC
	RegisteredOn      time.Time // the user's registration day: midnight UTC
	Now               time.Time // by the database's clock
	// The client's rate policy (specification section 8).
	RequestsPerMinute, Burst, ConcurrentReads int
}

// Authenticate returns what the bearer of an access token may do now. ErrInvalidAccessToken has all the reasons of
// specification 5.2: the token is malformed, expired or revoked; its connection has another version, or is revoked, disconnected
// or lapsed; the user is deleted; or the client is not active.
//
// A token that was once the client's names it, also where it gives no access any more: ClientID is set with that error.
func (s *Server) Authenticate(ctx context.Context, presented string) (Access, error) {
	token, err := open[accessToken](s, credential.AccessToken, presented)
	if err != nil {
		return Access{}, refusal.Because(ErrInvalidAccessToken, "the access token is none of this service, or was altered")
	}
	access, err := s.access(inLineOf(ctx, token.ClientID), token)
	if err != nil {
		return Access{ClientID: token.ClientID}, fmt.Errorf("authenticate: %w", err)
	}
	return access, nil
}
