package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

// Settings are the lifetimes of credentials (specification section 8).
type Settings struct {
	AccessTokenLifetime time.Duration `setting:"" type:"1s to 5m" default:"300s" help:"Lifetime of an access token, 1s to 300s."`
	CodeLifetime        time.Duration `setting:"" type:"1s to 2m" default:"120s" help:"Lifetime of an authorization code, 1s to 120s."`
	RequestLifetime     time.Duration `setting:"" type:"1s to 10m" default:"10m" help:"Time allowed for sign-in and consent, 1s to 10m."`
	RefreshInactivity   time.Duration `setting:"" type:"1s or more" default:"2160h" help:"A connection lapses when it has not been refreshed for this long, 1s or more."`

	Random io.Reader        `kong:"-"` // source of grant ids, used concurrently, or nil for crypto/rand
	Now    func() time.Time `kong:"-"` // says when refresh tokens are issued, or nil for time.Now
}

// DefaultSettings are the longest lifetimes that the specification allows.
var DefaultSettings = Settings{
	AccessTokenLifetime: 300 * time.Second,
	CodeLifetime:        120 * time.Second,
	RequestLifetime:     10 * time.Minute,
	RefreshInactivity:   90 * 24 * time.Hour,
}

// Errors of this package, in addition to *AuthorizeError. After any other error the act failed, or its outcome is unknown.
var (
	// ErrInvalidClient: client authentication failed (specification 5.1). It does not say which part was wrong.
	ErrInvalidClient = errors.New("invalid client")
	// ErrInvalidGrant: the code or refresh token cannot be used (specification 7.3).
	ErrInvalidGrant = errors.New("invalid grant")
	// ErrReplayed is the ErrInvalidGrant of a refresh token that was used before. Its connection has just been revoked.
	ErrReplayed = refusal.Because(fmt.Errorf("%w: a used refresh token", ErrInvalidGrant),
		"the refresh token was used before, and so the connection was revoked")
	// ErrLapsed is the ErrInvalidGrant of a connection that was not refreshed in time.
	ErrLapsed = refusal.Because(fmt.Errorf("%w: the connection has lapsed", ErrInvalidGrant),
		"the connection has lapsed: it was not refreshed in time")
	// ErrInvalidAccessToken: the access token gives no access (specification 5.2).
	ErrInvalidAccessToken = errors.New("invalid access token")
	// ErrRequestEnded: this browser has no such authorization request, or the request has ended (specification 3.1).
	ErrRequestEnded = errors.New("authorization request ended")
	// ErrDayOver is ErrRequestEnded because the user's day has ended on which the consent was shown.
	ErrDayOver = fmt.Errorf("%w: its day is over", ErrRequestEnded)
	// ErrNotConnected: the user has never been connected with the client.
	ErrNotConnected = errors.New("not connected")
)

// Server is the authorization server. It is safe for concurrent use, and several servers may share a database.
type Server struct {
	pool     *postgres.Pool
	queries  *oauthdb.Queries
	lists    *oauthdb.Queries // each query is planned for the filters that are set
	keys     *credential.Keyring
	settings Settings

	connections   *work.Locks[connectionKey]
	credentials   *work.Batch[Credentials, struct{}]
	registrations *work.Batch[uuid.UUID, registration]
}

// connectionKey is the primary key of a connection. A server performs one act at a time on each connection. The other acts wait in
// memory, so that they occupy no database connection.
type connectionKey struct{ userID, clientID uuid.UUID }

// New returns the authorization server of a migrated database.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Server {
	if settings.Random == nil {
		settings.Random = rand.Reader
	}
	if settings.Now == nil {
		settings.Now = time.Now
	}
	s := &Server{
		pool:        pool,
		queries:     oauthdb.New(pool),
		lists:       oauthdb.New(postgres.Replanned{Pool: pool}),
		keys:        keys,
		settings:    settings,
		connections: work.NewLocks[connectionKey](),
	}
	s.credentials = work.NewBatch(credentialsPerStatement, s.authenticateClients)
	s.registrations = work.NewBatch(registrationsPerStatement, s.listRegistrations)
	return s
}

// Sweep deletes rows that have no effect any more: authorization requests and revoked access tokens that expired before that time. It
// also disconnects what the offboarding of a client has left. Call it every minute or so; nothing depends on when.
func (s *Server) Sweep(ctx context.Context, before time.Time) error {
	_, requests := s.queries.SweepAuthorizationRequests(ctx, before)
	_, tokens := s.queries.SweepRevokedAccessTokens(ctx, before)
	_, connections := endOffboarded(ctx, s.queries, nil)
	return errors.Join(requests, tokens, connections)
}
