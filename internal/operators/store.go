package operators

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"time"

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
type Sessions struct{ queries *operatorsdb.Queries }

// NewSessions returns the sessions in a migrated database.
func NewSessions(pool *postgres.Pool) *Sessions { return &Sessions{operatorsdb.New(pool)} }

// Start signs in the holder of a token. Error: ErrNoToken.
func (s *Sessions) Start(ctx context.Context, tokens *Tokens, text string) (SessionKey, error) {
	held, found := tokens.find(text)
	if !found {
		return SessionKey{}, ErrNoToken
	}
	var key SessionKey
	rand.Read(key[:])
	return key, postgres.Failed("start session", s.queries.StartSession(ctx, operatorsdb.StartSessionParams{
		SecretHash: key.hash(), TokenHash: held.hash, Lifetime: SessionLifetime,
	}))
}

// Get is who is signed in. A session ends with the token that it was started with: one that is on the list no more opens
// nothing, and one whose rights have changed has those of now. Error: ErrNoSession.
func (s *Sessions) Get(ctx context.Context, tokens *Tokens, key SessionKey) (Operator, error) {
	row, err := s.queries.GetSession(ctx, key.hash())
	if err != nil {
		return Operator{}, postgres.Outcome("get session", err, ErrNoSession)
	}
	held, found := tokens.byHash(row.TokenHash)
	if !found {
		return Operator{}, ErrNoSession
	}
	return held.Operator, nil
}

// End signs out. A session that has ended already is no error.
func (s *Sessions) End(ctx context.Context, key SessionKey) error {
	return postgres.Failed("end session", s.queries.EndSession(ctx, key.hash()))
}

// Sweep deletes sessions whose time is over.
func (s *Sessions) Sweep(ctx context.Context) error {
	_, err := s.queries.DeleteExpiredSessions(ctx)
	return postgres.Failed("sweep sessions of the console", err)
}
