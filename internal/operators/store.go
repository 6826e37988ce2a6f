package operators

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	operatorsdb "connect-svc/gen/db/operators"
	"connect-svc/internal/postgres"
)

// SessionLifetime is how long somebody is signed in to the console, by the database's clock. What is done meanwhile does not
// make it longer.
const SessionLifetime = 8 * time.Hour

// ErrNoSession is the error for a session that has ended, by its time, by signing out or with its token, and for one that never
// was.
var ErrNoSession = errors.New("operators: no session")

// ErrNoToken is the error for a text that is nobody's token.
var ErrNoToken = errors.New("operators: nobody has this token")

// SessionKey opens a session. Only the browser that signed in holds it.
type SessionKey [32]byte

func (k SessionKey) hash() []byte {
	hash := sha256.Sum256(k[:])
	return hash[:]
}

// Sessions are those of the console, in the database, so that every server knows them.
type Sessions struct {
	pool    *postgres.Pool
	queries *operatorsdb.Queries
}

// NewSessions returns the sessions in a migrated database.
func NewSessions(pool *postgres.Pool) *Sessions { return &Sessions{pool, operatorsdb.New(pool)} }

// What sessions write into the audit log.
const (
	signedIn  = "console.signed_in"
	signedOut = "console.signed_out"
)

// Start signs in the holder of a token. Error: ErrNoToken.
func (s *Sessions) Start(ctx context.Context, tokens *Tokens, text string) (key SessionKey, holder Operator, err error) {
	held, found := tokens.find(text)
	if !found {
		return key, holder, ErrNoToken
	}
	rand.Read(key[:])
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := operatorsdb.New(tx)
		if err := queries.StartSession(ctx, operatorsdb.StartSessionParams{SecretHash: key.hash(), TokenHash: held.hash, Lifetime: SessionLifetime}); err != nil {
			return err
		}
		return queries.NoteSession(ctx, operatorsdb.NoteSessionParams{Actor: held.Name, Action: signedIn})
	})
	return key, held.Operator, postgres.Wrap("start session", err)
}

// Get is who is signed in. A session ends with the token that it was started with: one that is on the list no more opens
// nothing, and one whose rights have changed has those of now. Error: ErrNoSession.
func (s *Sessions) Get(ctx context.Context, tokens *Tokens, key SessionKey) (Operator, error) {
	row, err := s.queries.GetSession(ctx, key.hash())
	if err != nil {
		return Operator{}, postgres.WrapNoRows("get session", err, ErrNoSession)
	}
	held, found := tokens.byHash(row.TokenHash)
	if !found {
		return Operator{}, ErrNoSession
	}
	return held.Operator, nil
}

// End signs out, and returns who did. A session that has ended already, by its time or with its token, is no error, and nobody's.
func (s *Sessions) End(ctx context.Context, tokens *Tokens, key SessionKey) (holder Operator, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := operatorsdb.New(tx)
		row, err := queries.GetSession(ctx, key.hash())
		if err != nil {
			return err
		}
		held, found := tokens.byHash(row.TokenHash)
		ended, err := queries.EndSession(ctx, key.hash())
		if err != nil || ended == 0 || !found {
			return err
		}
		holder = held.Operator
		return queries.NoteSession(ctx, operatorsdb.NoteSessionParams{Actor: held.Name, Action: signedOut})
	})
	return holder, postgres.WrapNoRows("end session", err, nil)
}

// Sweep deletes sessions whose time is over.
func (s *Sessions) Sweep(ctx context.Context) error {
	_, err := s.queries.DeleteExpiredSessions(ctx)
	return postgres.Wrap("sweep sessions of the console", err)
}
