package operators

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	operatorsdb "connect-svc/gen/db/operators"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
)

// SessionLifetime is how long a session of the console lasts, by the time that its server expects. Activity does not extend it.
const SessionLifetime = 8 * time.Hour

// ErrNoSession is the error for an unknown session, and for one that has ended: by its time, by signing out or with its token.
var ErrNoSession = errors.New("operators: no session")

// ErrReadOnly means that a read-only token asked for a change.
var ErrReadOnly = errors.New("the operator token is for reading alone")

// ErrNoToken is the error for an unknown token.
var ErrNoToken = errors.New("operators: unknown token")

// SessionKey is the secret of a session. Only the browser that signed in holds it.
type SessionKey [32]byte

func (k SessionKey) hash() []byte { return credential.Hash(string(k[:])) }

// Sessions are the sessions of the console. They are in the database, so that every server knows them.
type Sessions struct {
	pool    *postgres.Pool
	queries *operatorsdb.Queries
}

// NewSessions returns the sessions in a migrated database.
func NewSessions(pool *postgres.Pool) *Sessions { return &Sessions{pool, operatorsdb.New(pool)} }

// Start signs in the holder of a token. Errors: ErrNoToken.
func (s *Sessions) Start(ctx context.Context, tokens *Tokens, text string) (key SessionKey, holder Operator, err error) {
	entry, ok := tokens.find(credential.Hash(text))
	if !ok {
		return key, holder, ErrNoToken
	}
	rand.Read(key[:])
	err = pgx.BeginFunc(ctx, postgres.Noting{Pool: s.pool}, func(tx pgx.Tx) error {
		queries := operatorsdb.New(tx)
		if err := queries.StartSession(ctx, operatorsdb.StartSessionParams{
			SecretHash: key.hash(), TokenHash: entry.hash, Lifetime: SessionLifetime,
		}); err != nil {
			return err
		}
		return queries.AuditSession(ctx, operatorsdb.AuditSessionParams{Actor: entry.Name, Action: "console.signed_in"})
	})
	return key, entry.Operator, postgres.Wrap("start session", err)
}

// Get returns the operator who is signed in. A session ends when its token leaves the list, and has the present rights of the token.
// Errors: ErrNoSession.
func (s *Sessions) Get(ctx context.Context, tokens *Tokens, key SessionKey) (Operator, error) {
	row, err := s.queries.GetSession(ctx, operatorsdb.GetSessionParams{SecretHash: key.hash()})
	if err != nil {
		return Operator{}, postgres.WrapNoRows("get session", err, ErrNoSession)
	}
	entry, ok := tokens.find(row.TokenHash)
	if !ok {
		return Operator{}, ErrNoSession
	}
	return entry.Operator, nil
}

// End signs out, and returns the operator who did. If the session has already ended it returns no operator and no error.
func (s *Sessions) End(ctx context.Context, tokens *Tokens, key SessionKey) (holder Operator, err error) {
	err = pgx.BeginFunc(ctx, postgres.Noting{Pool: s.pool}, func(tx pgx.Tx) error {
		queries := operatorsdb.New(tx)
		row, err := queries.GetSession(ctx, operatorsdb.GetSessionParams{SecretHash: key.hash()})
		if err != nil {
			return err
		}
		entry, ok := tokens.find(row.TokenHash)
		ended, err := queries.EndSession(ctx, key.hash())
		if err != nil || ended == 0 || !ok {
			return err
		}
		holder = entry.Operator
		return queries.AuditSession(ctx, operatorsdb.AuditSessionParams{Actor: entry.Name, Action: "console.signed_out"})
	})
	return holder, postgres.WrapNoRows("end session", err, nil)
}

// Sweep deletes sessions that had expired at that time.
func (s *Sessions) Sweep(ctx context.Context, before time.Time) error {
	return postgres.Wrap("sweep sessions of the console", postgres.Sweep(ctx, s.queries.DeleteExpiredSessions, before))
}
