package account

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
)

// SessionLifetime is the lifetime of a session of the account pages. Use does not extend it.
const SessionLifetime = 30 * time.Minute

// ErrNoSession means that the session has ended or never existed.
var ErrNoSession = errors.New("not signed in")

// SessionKey opens a session of the account pages. Only the browser that signed in holds it.
type SessionKey struct {
	UserID uuid.UUID
	Secret [32]byte
}

func (k SessionKey) hash() []byte {
	hash := sha256.Sum256(k.Secret[:])
	return hash[:]
}

// SealSession returns the key for the browser to store.
func (a *Accounts) SealSession(key SessionKey) (string, error) {
	return a.keys.Seal(credential.AccountSession, append(key.UserID[:], key.Secret[:]...))
}

// OpenSession opens a sealed key. That it opens proves that the user signed in there. The session may have ended.
func (a *Accounts) OpenSession(sealed string) (key SessionKey, ok bool) {
	text, err := a.keys.Open(credential.AccountSession, sealed)
	if err != nil || len(text) != binary.Size(key) {
		return key, false
	}
	_, err = binary.Decode(text, binary.BigEndian, &key)
	return key, err == nil
}

// StartSession starts a session of the account pages with a verified sign-in. A sign-in starts one session. Repeating it returns that one,
// so that a browser that dropped the first answer is signed in. Error: ErrNoSignIn if that session has ended, or if the sign-in has a newer
// code.
func (a *Accounts) StartSession(ctx context.Context, signIn uuid.UUID, verified Verified) (SessionKey, error) {
	key := verified.session
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		used, err := queries.UseSignIn(ctx, accountdb.UseSignInParams{SignInID: signIn, UserID: verified.UserID, Seed: verified.seed})
		if err != nil {
			return err
		}
		if used == 0 {
			_, err := queries.GetSession(ctx, accountdb.GetSessionParams{UserID: key.UserID, SecretHash: key.hash()})
			return err
		}
		return queries.InsertSession(ctx, accountdb.InsertSessionParams{
			UserID: key.UserID, SecretHash: key.hash(), Lifetime: SessionLifetime, Expected: a.pool.Expected(),
		})
	})
	if postgres.Is(err, postgres.ForeignKeyViolation) { // the user was deleted
		err = pgx.ErrNoRows
	}
	return key, postgres.WrapNoRows("account: start session", err, ErrNoSignIn)
}

// GetSession returns the signed-in user. Error: ErrNoSession.
func (a *Accounts) GetSession(ctx context.Context, key SessionKey) (User, error) {
	row, err := a.queries.GetSession(ctx, accountdb.GetSessionParams{UserID: key.UserID, SecretHash: key.hash()})
	return userOf(row), postgres.WrapNoRows("account: get session", err, ErrNoSession)
}

// EndSession signs out. It succeeds also if the session has ended already.
func (a *Accounts) EndSession(ctx context.Context, key SessionKey) error {
	err := a.queries.EndSession(ctx, accountdb.EndSessionParams{UserID: key.UserID, SecretHash: key.hash()})
	return postgres.Wrap("account: end session", err)
}
