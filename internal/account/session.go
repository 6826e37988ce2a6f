package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
)

// SessionLifetime is how long a session of the account pages lasts, from its sign-in on.
const SessionLifetime = 30 * time.Minute

// ErrNoSession means that nobody is signed in: the session has ended, or never existed.
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

// SealSession is what the browser keeps of its session.
func (a *Accounts) SealSession(key SessionKey) (string, error) {
	return a.keys.Seal(credential.AccountSession, append(key.UserID[:], key.Secret[:]...))
}

// OpenSession opens what a browser kept. That it opens says that the user did sign in there, not that the session goes on.
func (a *Accounts) OpenSession(sealed string) (key SessionKey, ok bool) {
	text, err := a.keys.Open(credential.AccountSession, sealed)
	if err != nil || len(text) != len(key.UserID)+len(key.Secret) {
		return key, false
	}
	copy(key.UserID[:], text)
	copy(key.Secret[:], text[len(key.UserID):])
	return key, true
}

// StartSession signs a user in to the account pages with a verified sign-in, and ends the sign-in. An email starts one session: the
// second time it is ErrNoSignIn.
func (a *Accounts) StartSession(ctx context.Context, signIn uuid.UUID, verified Verified) (SessionKey, error) {
	key := SessionKey{UserID: verified.UserID}
	rand.Read(key.Secret[:])
	return key, a.startSession(ctx, signIn, verified.seed, key)
}
