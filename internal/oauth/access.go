package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
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

// Admission is what a read must have to reach the rate limiter, and the lease that it asks for there.
type Admission struct {
	Scopes  scope.Set
	GrantID uuid.UUID
	Lease   uuid.UUID
}

// Admitted is what is left in the bucket of a client that the rate limiter in the database has admitted, and the seconds
// until it holds a request.
type Admitted struct {
	Remaining, ResetSeconds int
}

// AuthenticateAndAdmit is [Server.Authenticate] and, in the same round trip, the admission by the rate limiter in the
// database, where the bearer has what the read needs and nothing speaks against it. Otherwise Admitted is nil, and the
// limiter must be asked by itself.
func (s *Server) AuthenticateAndAdmit(ctx context.Context, presented string, admission Admission) (Access, *Admitted, error) {
	token, err := open[accessToken](s, credential.AccessToken, presented)
	if err != nil {
		return Access{}, nil, ErrInvalidAccessToken
	}
	access, admitted, err := s.store.accessAndAdmission(ctx, token, admission)
	if errors.Is(err, ErrInvalidAccessToken) {
		return Access{}, nil, ErrInvalidAccessToken
	}
	if err != nil {
		return Access{}, nil, fmt.Errorf("authenticate and admit: %w", err)
	}
	return access, admitted, nil
}

// Authenticate says what the bearer of an access token may do now. It is ErrInvalidAccessToken for all the reasons of
// specification 5.2: the token is malformed, expired or revoked, its connection is of another version, revoked,
// disconnected or lapsed, the user is deleted, or the client is not active.
func (s *Server) Authenticate(ctx context.Context, presented string) (Access, error) {
	token, err := open[accessToken](s, credential.AccessToken, presented)
	if err != nil {
		return Access{}, ErrInvalidAccessToken
	}
	access, err := s.store.access(ctx, token)
	if errors.Is(err, ErrInvalidAccessToken) {
		return Access{}, ErrInvalidAccessToken
	}
	if err != nil {
		return Access{}, fmt.Errorf("authenticate: %w", err)
	}
	return access, nil
}
