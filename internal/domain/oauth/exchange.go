package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ExchangeParams are the fields of a code exchange (specification 4.3). The caller has checked their syntax.
type ExchangeParams struct {
	Code         string
	RedirectURI  string
	CodeVerifier string
}

// Exchange turns a code into the first tokens of a new connection version (specification 3.1). After these errors nothing has changed:
// ErrInvalidClient if the credentials are wrong; ErrInvalidGrant if the code is unknown, expired or used, or is not bound to these
// parameters and the connection's current version.
func (s *Server) Exchange(ctx context.Context, client Credentials, params ExchangeParams) (Tokens, error) {
	code, err := credential.OpenAs[authorizationCode](s.keys, credential.AuthorizationCode, params.Code)
	challenge := sha256.Sum256([]byte(params.CodeVerifier)) // S256 (RFC 7636, section 4.6)
	switch {
	case err != nil:
		return Tokens{}, s.refuse(ctx, client, "code was not issued by this service, or was altered")
	case code.ClientID != client.ClientID:
		return Tokens{}, s.refuse(ctx, client, "code is another client's")
	case code.RedirectURI != sha256.Sum256([]byte(params.RedirectURI)):
		return Tokens{}, s.refuse(ctx, client, "redirect_uri is not the one of the authorization request")
	case subtle.ConstantTimeCompare(challenge[:], code.CodeChallenge[:]) != 1:
		return Tokens{}, s.refuse(ctx, client, "code_verifier does not match code_challenge of the authorization request")
	}
	ctx = asClient(ctx, code.ClientID)
	next, err := s.keys.Seal(credential.RefreshToken, refreshToken{
		UserID: code.UserID, ClientID: code.ClientID, Version: code.Version + 1, Generation: 1,
		IssuedAt: s.settings.Now().UnixMicro(), Scopes: code.Scopes, HistoryFrom: code.HistoryFrom,
	})
	if err != nil {
		return Tokens{}, fmt.Errorf("exchange: %w", err)
	}
	unlock, err := s.connections.Lock(ctx, connectionKey{code.UserID, code.ClientID})
	if err != nil {
		return Tokens{}, fmt.Errorf("exchange: %w", err)
	}
	defer unlock()
	for round := 1; ; round++ {
		row, err := s.queries.AuthorizeConnection(ctx, oauthdb.AuthorizeConnectionParams{
			UserID:        code.UserID,
			ClientID:      code.ClientID,
			SecretHash:    client.SecretHash[:],
			CodeVersion:   code.Version,
			CodeExpiresAt: time.UnixMicro(code.ExpiresAt),
			RedirectUri:   params.RedirectURI,
			Scopes:        code.Scopes,
			HistoryFrom:   time.Unix(code.HistoryFrom, 0).UTC(),
			RefreshHash:   credential.Hash(next),
			Inactivity:    s.settings.RefreshInactivity,
		})
		if err == nil {
			return s.withAccessToken(Tokens{
				GrantID: row.GrantID, HistoryFrom: row.HistoryFrom, ConnectionVersion: row.Version, RefreshToken: next, Scopes: row.Scopes,
			}, code.UserID, code.ClientID, row.AuthorizedAt)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			err = s.refuseExchange(ctx, client, code, params.RedirectURI)
		}
		if !errors.Is(err, errRepeat) || round == rounds {
			return Tokens{}, fmt.Errorf("exchange: %w", err)
		}
	}
}

// errRepeat says that an act changed nothing and would succeed now: the client was enabled, or its secret replaced, in between.
var errRepeat = work.Unreached(errors.New("possible by now"))

// rounds is how often an act is tried that ends with errRepeat. Nobody enables a client so often within a request.
const rounds = 10

// refuseExchange returns why an exchange changed nothing: ErrInvalidClient, ErrInvalidGrant, errRepeat, or a failure to find out.
func (s *Server) refuseExchange(ctx context.Context, client Credentials, code authorizationCode, redirectURI string) error {
	row, err := s.queries.RefuseExchange(ctx, oauthdb.RefuseExchangeParams{
		UserID:        code.UserID,
		ClientID:      code.ClientID,
		SecretHash:    client.SecretHash[:],
		CodeVersion:   code.Version,
		CodeExpiresAt: time.UnixMicro(code.ExpiresAt),
		RedirectUri:   redirectURI,
		Scopes:        code.Scopes,
	})
	switch {
	case err != nil:
		return postgres.NoRowsAs(err, errWrongClient)
	case !row.Believed:
		return clock.ErrDoubted
	case row.Possible:
		return errRepeat
	}
	return refusal.Because(ErrInvalidGrant, row.Reason)
}

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

// Act is the last act on a connection, as the audit log of a database with later commits has it.
type Act struct {
	UserID, ClientID uuid.UUID
	Version          int64
	Action           string // connection.authorized, connection.revoked or connection.disconnected
	Actor, Reason    string
	Scopes           scope.Set // of an authorization
	At               time.Time
	// Until is At, or the time of an earlier authorization that is later than At: the clock was behind when the connection ended.
	Until time.Time
}

// Replay brings connections that a restore or a failover has set back to where acts left them, in parts, and returns how many changed by
// each action. It skips acts that the database has, those on connections that have changed since, and authorizations before all tokens of
// their client were revoked. It may be repeated. Refresh tokens of replayed authorizations work again, see [Server.Refresh]. An ended
// connection sends its event.
func Replay(ctx context.Context, pool *postgres.Pool, acts []Act) (map[string]int64, error) {
	const perStatement = 1000
	changed, queries := map[string]int64{}, oauthdb.New(pool)
	for part := range slices.Chunk(acts, perStatement) {
		revocations, err := queries.ListTokensRevoked(ctx, postgres.Map(part, func(a Act) uuid.UUID { return a.ClientID }))
		if err != nil {
			return changed, postgres.Wrap("replay", err)
		}
		part = slices.DeleteFunc(slices.Clone(part), func(a Act) bool {
			isOver := func(r oauthdb.ListTokensRevokedRow) bool { return r.ClientID == a.ClientID && !a.At.After(r.At) }
			return a.Action == "connection.authorized" && slices.ContainsFunc(revocations, isOver)
		})
		users := postgres.Map(part, func(a Act) uuid.UUID { return a.UserID })
		zones, err := queries.ListTimezones(ctx, users)
		if err != nil {
			return changed, postgres.Wrap("replay", err)
		}
		locations := map[uuid.UUID]*time.Location{}
		for _, zone := range zones {
			locations[zone.UserID] = timezone.Location(zone.Timezone)
		}
		rows, err := queries.ReplayActs(ctx, oauthdb.ReplayActsParams{
			UserIds:   users,
			ClientIds: postgres.Map(part, func(a Act) uuid.UUID { return a.ClientID }),
			Versions:  postgres.Map(part, func(a Act) int64 { return a.Version }),
			Actions:   postgres.Map(part, func(a Act) string { return a.Action }),
			Actors:    postgres.Map(part, func(a Act) string { return a.Actor }),
			Reasons:   postgres.Map(part, func(a Act) string { return a.Reason }),
			Scopes:    postgres.Map(part, func(a Act) int16 { return int16(a.Scopes) }),
			Instants:  postgres.Map(part, func(a Act) time.Time { return a.At }),
			Days: postgres.Map(part, func(a Act) time.Time {
				return timezone.Day(a.At.In(cmp.Or(locations[a.UserID], time.UTC))) // a user who was deleted has no connection either
			}),
			// Times may be rounded down to milliseconds.
			Befores: postgres.Map(part, func(a Act) time.Time { return a.Until.Add(time.Millisecond) }),
			Actor:   work.Actor(ctx),
		})
		if err != nil {
			return changed, postgres.Wrap("replay", err)
		}
		for _, row := range rows {
			changed[row.Action] += row.Connections
		}
	}
	return changed, nil
}
