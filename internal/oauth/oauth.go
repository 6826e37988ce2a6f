package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
	"connect-svc/internal/scope"
)

// Settings are the lifetimes of credentials (specification section 8).
type Settings struct {
	AccessTokenLifetime time.Duration // whole seconds, 1 s to 300 s
	CodeLifetime        time.Duration // 1 s to 120 s
	RequestLifetime     time.Duration // 1 s to 10 min
	RefreshInactivity   time.Duration // 1 s and up

	Random io.Reader // source of grant ids, used concurrently; nil: crypto/rand
}

// DefaultSettings are the longest lifetimes that the specification allows.
var DefaultSettings = Settings{
	AccessTokenLifetime: 300 * time.Second,
	CodeLifetime:        120 * time.Second,
	RequestLifetime:     10 * time.Minute,
	RefreshInactivity:   90 * 24 * time.Hour,
}

// Errors of this package, next to *AuthorizeError. Everything else is a fault: the act was not carried out, or it is
// unknown whether it was.
var (
	// ErrInvalidClient: client authentication failed (specification 5.1), whatever was wrong.
	ErrInvalidClient = errors.New("invalid client")
	// ErrInvalidGrant: the code or refresh token can not be used (specification 7.3).
	ErrInvalidGrant = errors.New("invalid grant")
	// ErrReplayed is the ErrInvalidGrant of a refresh token that was used before, whose connection was just revoked.
	ErrReplayed = refusal.Because(fmt.Errorf("%w: a used refresh token", ErrInvalidGrant),
		"the refresh token was used before, and so the connection was revoked")
	// ErrLapsed is the ErrInvalidGrant of a connection that was not refreshed in time.
	ErrLapsed = refusal.Because(fmt.Errorf("%w: the connection has lapsed", ErrInvalidGrant),
		"the connection has lapsed: it was not refreshed in time")
	// ErrInvalidAccessToken: the bearer has no access (specification 5.2).
	ErrInvalidAccessToken = errors.New("invalid access token")
	// ErrRequestEnded: there is no such authorization request for this browser, or no more (specification 3.1).
	ErrRequestEnded = errors.New("authorization request ended")
)

// Server is the authorization server. It is safe for use by many goroutines, and by many servers on one database.
type Server struct {
	store
	turns    *fairqueue.Locks[row]
	proofs   *fairqueue.Batch[Credentials, struct{}]
	keys     *credential.Keyring
	settings Settings

	registrations *fairqueue.Batch[uuid.UUID, registration]
}

// row of the table connections. A server performs one act at a time on each row. The others wait here, without a database
// connection that another row could use.
type row struct{ userID, clientID uuid.UUID }

// New is an authorization server on a migrated database.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Server {
	store := newStore(pool)
	if settings.Random != nil {
		store.random = settings.Random
	}
	return &Server{
		store: store, turns: fairqueue.NewLocks[row](), keys: keys, settings: settings,
		proofs:        fairqueue.NewBatch(proofsAtOnce, store.proofs),
		registrations: fairqueue.NewBatch(registrationsAtOnce, store.listRegistrations),
	}
}

// Tokens are the answer to an exchange or a refresh (specification 2.3).
type Tokens struct {
	GrantID           uuid.UUID
	HistoryFrom       time.Time // a date: midnight UTC
	ConnectionVersion int64
	AccessToken       string
	ExpiresIn         int // seconds, 1 to 300
	RefreshToken      string
	Scopes            scope.Set
}

// issue makes the tokens of a connection whose refresh token has just been stored.
func (s *Server) issue(userID, clientID uuid.UUID, connection granted, refreshToken string) (Tokens, error) {
	accessToken, err := s.seal(credential.AccessToken, accessToken{
		UserID:    userID,
		ClientID:  clientID,
		TokenID:   uuid.New(),
		Version:   connection.Version,
		ExpiresAt: connection.AuthorizedAt.Add(s.settings.AccessTokenLifetime).UnixMicro(),
	})
	if err != nil {
		return Tokens{}, err
	}
	return Tokens{
		GrantID:           connection.GrantID,
		HistoryFrom:       connection.HistoryFrom,
		ConnectionVersion: connection.Version,
		AccessToken:       accessToken,
		ExpiresIn:         int(s.settings.AccessTokenLifetime / time.Second),
		RefreshToken:      refreshToken,
		Scopes:            connection.Scopes,
	}, nil
}

// Sweep deletes rows that can have no effect any more: ended authorization requests, and revoked access tokens that
// have expired. It ends the connections that the offboarding of a client has left. It is meant to run every minute or so;
// nothing depends on when.
func (s *Server) Sweep(ctx context.Context) error {
	_, requests := s.queries.SweepAuthorizationRequests(ctx)
	_, tokens := s.queries.SweepRevokedAccessTokens(ctx)
	_, connections := s.endOffboarded(ctx, nil)
	return errors.Join(requests, tokens, connections)
}
