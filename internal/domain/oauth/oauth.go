// Package oauth holds the rules of the authorization server: the OAuth 2.0 authorization code grant with S256 PKCE
// (RFC 6749, RFC 7636), refresh with rotation, revocation (RFC 7009), disconnect, and the authentication of access tokens.
//
// A connection links one user to one client (specification 2.2, 3). It is one row, whose states ARCHITECTURE.md draws. "Lapsed" is an
// authorized connection whose refresh deadline has passed: it is derived and never stored.
//
// # Terms
//
// The version of a connection counts its authorizations and disconnects. The generation of a refresh token counts the refreshes within a
// version. A family is every credential of one version. A replay is the use of a refresh token that was current before, or of another one
// of the current generation.
//
// # Invariants
//
//   - The version rises with every exchange and every disconnect, and never falls. A credential works only for the version that it
//     names. (TestModel)
//   - A code works once: it names the version under which it was issued, and the exchange raises the version. (TestCodesInFlight)
//   - A decision that is repeated has the same result again, and changes nothing. A code is not valid for longer by that.
//     (TestAllowAgain, TestAllowAgainIsNotLonger, TestDenyAgain, TestDisconnectAgain)
//   - One refresh token of a connection is current, the one with the row's generation and hash. A replay revokes the family, and the
//     revocation is committed before the caller gets a response. (TestCredentials_3_2)
//   - A refresh token that is ahead of its connection proves that the database lost commits, and restores them. A connection
//     that has ended stays ended. (TestLostRefreshes, TestLostCommitsReviveNothing)
//   - One statement on the row settles every race (sql/oauth/connection.sql). No act decides on what it read earlier.
//     (TestParallelRefreshes)
//   - The database's clock decides every expiry, in the statement that acts. (TestCodeExpires_3_1) That includes the end of the user's
//     calendar day, which the program computes. (TestMidnightDuringAllow_3_1, TestUnknownTimezone)
//   - The user gets one receipt for each time that a client begins to read, and for each end that is not the user's own, whoever sees it and
//     however often. (TestReceipts, TestReceiptOfAnEndThatSeveralServersSee, TestReceiptsAfterAWait)
//   - A read is recorded after its rows were read, behind the answer, and only for the version that was read. (TestLastRead,
//     TestReadsOfWhatHasEnded, partner.TestRecordedReads)
//   - A refused act changes nothing, except that a replay revokes. (TestAuditOfRefusals)
//   - A credential of one kind is never accepted as another kind. (TestCredentialsOfOtherKinds)
//
// No error contains a credential.
package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

// Settings are the lifetimes of credentials (specification section 8).
type Settings struct {
	AccessTokenLifetime time.Duration `setting:"" type:"1s to 5m" default:"300s" help:"Lifetime of an access token, 1s to 300s."`
	CodeLifetime        time.Duration `setting:"" type:"1s to 2m" default:"120s" help:"Lifetime of an authorization code, 1s to 120s."`
	RequestLifetime     time.Duration `setting:"" type:"1s to 10m" default:"10m" help:"Time allowed for sign-in and consent, 1s to 10m."`
	RefreshInactivity   time.Duration `setting:"" type:"1s or more" default:"2160h" help:"A connection lapses when it has not been refreshed for this long, 1s or more."`

	Random io.Reader        `kong:"-"` // source of grant ids, used concurrently, or nil for crypto/rand
	Now    func() time.Time `kong:"-"` // says when refresh tokens are issued, or nil for time.Now

	Logger *slog.Logger `kong:"-"` // of reads that are not recorded, or nil
	Limits work.Limits  `kong:"-"` // of their statements
	// Active, if it is set, is told of each first read of a user's activity on a day (UTC) by a client, and whether it is the first one of any.
	Active func(clientID uuid.UUID, at time.Time, first bool) `kong:"-"`
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
	ErrLapsed = fmt.Errorf("%w: the connection has lapsed", ErrInvalidGrant)
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
	reads         *work.Buffer[readingKey, reading]
}

// connectionKey is the primary key of a connection. A server performs one act at a time on each connection. The other acts wait in
// memory, so that they occupy no database connection.
type connectionKey struct{ userID, clientID uuid.UUID }

// perBatch is how many credentials, or clients, one statement looks up at most.
const perBatch = 500

// New returns the authorization server of a migrated database.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Server {
	if settings.Random == nil {
		settings.Random = rand.Reader
	}
	if settings.Now == nil {
		settings.Now = time.Now
	}
	if settings.Logger == nil {
		settings.Logger = slog.New(slog.DiscardHandler)
	}
	settings.Limits = settings.Limits.OrDefault()
	s := &Server{
		pool:        pool,
		queries:     oauthdb.New(pool),
		lists:       oauthdb.New(postgres.Replanned{Pool: pool}),
		keys:        keys,
		settings:    settings,
		connections: work.NewLocks[connectionKey](),
	}
	s.credentials = work.NewBatch(perBatch, s.authenticateClients)
	s.registrations = work.NewBatch(perBatch, s.listRegistrations)
	s.reads = s.newReads()
	return s
}

// Sweep deletes rows that have no effect any more: authorization requests and revoked access tokens that expired before that time. It
// also disconnects what the offboarding of a client has left. Call it every minute or so; nothing depends on when.
func (s *Server) Sweep(ctx context.Context, before time.Time) error {
	requests := postgres.Sweep(ctx, s.queries.SweepAuthorizationRequests, before)
	tokens := postgres.Sweep(ctx, s.queries.SweepRevokedAccessTokens, before)
	clients, listed := s.queries.ListOffboarded(ctx)
	failure := errors.Join(requests, tokens, listed)
	for _, clientID := range clients {
		_, err := EndConnectionsOfClient(ctx, s.pool, clientID)
		failure = errors.Join(failure, err)
	}
	return failure
}

// Partner is a client as users see it. All fields except the id and the name may be empty.
type Partner struct {
	ClientID                          uuid.UUID
	Name                              string
	HomepageURL, PrivacyURL, TermsURL string
	Logo                              string // file name
}

// registration is a client's row at the time Now.
type registration = oauthdb.ListRegistrationsRow

func (s *Server) listRegistrations(ctx context.Context, clientIDs []uuid.UUID) (map[uuid.UUID]registration, error) {
	rows, err := s.queries.ListRegistrations(ctx, oauthdb.ListRegistrationsParams{ClientIds: clientIDs})
	registrations := make(map[uuid.UUID]registration, len(rows))
	for _, row := range rows {
		registrations[row.ClientID] = row
	}
	return registrations, err
}

func partnerOf(row *registration) Partner {
	return Partner{row.ClientID, row.Name, row.HomepageUrl, row.PrivacyUrl, row.TermsUrl, row.Logo}
}
