package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/scope"
)

// ErrNotConnected says that the user has never been connected with the client.
var ErrNotConnected = errors.New("not connected")

// State is what a connection is in.
type State string

// The states of a connection (specification 3). Lapsed is derived from the refresh deadline and never stored.
const (
	Authorized   State = "authorized"
	Lapsed       State = "lapsed"
	Revoked      State = "revoked"
	Disconnected State = "disconnected"
)

// Connection links a user to a client (specification 2.2), as the people who may end it see it.
type Connection struct {
	UserID, ClientID uuid.UUID
	GrantID          uuid.UUID
	ClientName       string
	HomepageURL      string // empty when the client has none
	Version          int64
	State            State
	Scopes           scope.Set
	HistoryFrom      time.Time  // the first readable date: midnight UTC
	AuthorizedAt     time.Time  // when its present version was authorized
	LastReadAt       *time.Time // to within an hour; nil where the client has not read
}

// ConnectionsOfUser returns a user's connections by the name of the client, without disconnected ones. A user that
// does not exist has none.
func (s *Server) ConnectionsOfUser(ctx context.Context, userID uuid.UUID) ([]Connection, error) {
	list, err := s.store.connectionsOfUser(ctx, userID)
	if err != nil {
		return nil, fmt.Errorf("connections of a user: %w", err)
	}
	return list, nil
}

// ConnectionsOfClient returns a client's connections, disconnected ones too, in the order of their users' ids: at most
// limit of them, those after the given user; uuid.Nil starts at the first.
func (s *Server) ConnectionsOfClient(ctx context.Context, clientID, after uuid.UUID, limit int32) ([]Connection, error) {
	list, err := s.store.connectionsOfClient(ctx, clientID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("connections of a client: %w", err)
	}
	return list, nil
}

// DisconnectUser ends the user's connection with a client, as the user asked: all its codes and tokens stop working,
// and a later connection needs fresh consent (specification 3.2). It is the same act as the client's own
// [Server.Disconnect], and does no harm twice. Error: ErrNotConnected.
func (s *Server) DisconnectUser(ctx context.Context, userID, clientID uuid.UUID) error {
	return s.disconnectUser(ctx, userID, clientID, "user")
}

// DisconnectByOperator is [Server.DisconnectUser] where the operator decided it.
func (s *Server) DisconnectByOperator(ctx context.Context, userID, clientID uuid.UUID) error {
	return s.disconnectUser(ctx, userID, clientID, "operator")
}

func (s *Server) disconnectUser(ctx context.Context, userID, clientID uuid.UUID, actor string) error {
	err := s.store.disconnectUser(ctx, userID, clientID, actor)
	if errors.Is(err, ErrNotConnected) {
		return ErrNotConnected
	}
	if err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}
