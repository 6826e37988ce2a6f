package account

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/mileusna/useragent"
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
	return a.keys.Seal(credential.AccountSession, key)
}

// OpenSession opens a sealed key. That it opens proves that the user signed in there. The session may have ended.
func (a *Accounts) OpenSession(sealed string) (key SessionKey, ok bool) {
	key, err := credential.OpenAs[SessionKey](a.keys, credential.AccountSession, sealed)
	return key, err == nil
}

// StartSession starts a session of the account pages with a verified sign-in. A sign-in starts one session. Repeating it returns that one,
// so that a browser that dropped the first answer is signed in. Error: ErrNoSignIn if that session has ended, or if the sign-in has a newer
// code.
func (a *Accounts) StartSession(ctx context.Context, signIn uuid.UUID, verified Verified) (SessionKey, error) {
	key := verified.session
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		if _, err := queries.LockUser(ctx, verified.UserID); err != nil { // first, as a deletion and a change of the address do
			return err
		}
		used, err := queries.UseSignIn(ctx, accountdb.UseSignInParams{SignInID: signIn, UserID: verified.UserID, Seed: verified.seed})
		if err != nil {
			return err
		}
		if used == 0 {
			_, err := queries.GetSession(ctx, accountdb.GetSessionParams{UserID: key.UserID, SecretHash: key.hash()})
			return err
		}
		return queries.InsertSession(ctx, accountdb.InsertSessionParams{
			UserID: key.UserID, SecretHash: key.hash(), Lifetime: SessionLifetime,
		})
	})
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

// BrowserLifetime is how long a browser stays known after the last sign-in in it.
const BrowserLifetime = 180 * 24 * time.Hour

// BrowserKey proves that a user has signed in in this browser before. It is not a credential: it only gives the browser a budget of
// codes and attempts of its own, so that the owner of an account can sign in while strangers guess.
type BrowserKey struct {
	UserID uuid.UUID
	Secret [32]byte
}

// id is the first half of the hash of the secret. It does not reveal the secret.
func (k BrowserKey) id() uuid.UUID {
	hash := sha256.Sum256(k.Secret[:])
	return uuid.UUID(hash[:16])
}

// Browser is a known browser, as its user sees it.
type Browser struct {
	ID         uuid.UUID
	Name       string // such as "Firefox (Linux)"; empty if unknown
	SignedInAt time.Time
	FirstAt    *time.Time // the first sign-in, if that was an earlier one; nil if it is unknown, too
	This       bool       // the caller has its key
}

// RememberBrowser makes the browser known in which a user has just signed in. Ten browsers of an account are known: another one replaces
// the one whose last sign-in is the oldest. The new key replaces this browser's key for the user among keys. If the browser is known by the new
// key already, nothing changes: the same form was sent twice. Error: ErrNoSignIn if the sign-in has ended in the meantime, with the user's
// address or the user.
//
// It also remembers the language of the pages. If the browser was not known, the user gets a receipt, unless this is the first sign-in of all.
//
// It locks the user's row, so that concurrent sign-ins see each other's browsers.
func (a *Accounts) RememberBrowser(ctx context.Context, signIn uuid.UUID, key BrowserKey, keys []BrowserKey, userAgent, language string) error {
	userID := key.UserID
	former, name := keyOf(keys, userID).id(), BrowserName(userAgent)
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		user, err := queries.LockUser(ctx, userID)
		if err != nil {
			return err
		}
		_, over := queries.GetSignIn(ctx, signIn) // the lock has waited for a change of the address, which ends its sign-ins
		known, err := queries.ListBrowsers(ctx, userID)
		if err = cmp.Or(over, err); err != nil {
			return err
		}
		knows := func(id uuid.UUID) bool {
			return slices.ContainsFunc(known, func(b accountdb.ListBrowsersRow) bool { return b.BrowserID == id })
		}
		if knows(key.id()) {
			return nil
		}
		if a.settings.Receipts && !knows(former) && (user.Language != nil || len(known) > 0) {
			if err := addNotice(ctx, tx, userID, newBrowser, receiptData{BrowserID: key.id(), Browser: name}); err != nil {
				return err
			}
		}
		if postgres.Value(user.Language) != language {
			if err := queries.SetLanguage(ctx, accountdb.SetLanguageParams{UserID: userID, Language: language}); err != nil {
				return err
			}
		}
		var first *time.Time
		switch at, err := queries.GetFirstSignIn(ctx, accountdb.GetFirstSignInParams{UserID: userID, BrowserID: former}); {
		case err == nil:
			first = &at
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		return cmp.Or(
			queries.ForgetBrowsers(ctx, accountdb.ForgetBrowsersParams{UserID: userID, Replaced: former}),
			queries.InsertBrowser(ctx, accountdb.InsertBrowserParams{UserID: userID, BrowserID: key.id(), Name: name, First: first}),
		)
	})
	return postgres.WrapNoRows("account: remember a browser", err, ErrNoSignIn)
}

// Browsers returns the known browsers of a user, latest sign-in first. keys are those of the caller's browser.
func (a *Accounts) Browsers(ctx context.Context, userID uuid.UUID, keys ...BrowserKey) ([]Browser, error) {
	rows, err := a.queries.ListBrowsers(ctx, userID)
	return postgres.Map(rows, func(row accountdb.ListBrowsersRow) Browser {
		return Browser{row.BrowserID, row.Name, row.SignedInAt, row.FirstSignedInAt, keyOf(keys, userID).id() == row.BrowserID}
	}), postgres.Wrap("account: list browsers", err)
}

// RecentAddress returns the address of the user to whom the key belongs, if the last sign-in with it was within [SessionLifetime]; else "".
func (a *Accounts) RecentAddress(ctx context.Context, key BrowserKey) (string, error) {
	email, err := a.queries.GetAddressOfBrowser(ctx, accountdb.GetAddressOfBrowserParams{UserID: key.UserID, BrowserID: key.id()})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return email, postgres.Wrap("account: find the address of a browser", err)
}

// ForgetBrowser makes a browser of the signed-in user unknown, and ends the user's other sessions and the undecided requests in which the user
// has signed in: they may be in that browser. An unknown browser is not an error.
func (a *Accounts) ForgetBrowser(ctx context.Context, session SessionKey, id uuid.UUID) error {
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		_, gone := queries.LockUser(ctx, session.UserID) // first, as a deletion and a change of the address do
		return cmp.Or(
			gone,
			queries.ForgetBrowser(ctx, accountdb.ForgetBrowserParams{UserID: session.UserID, BrowserID: id}),
			queries.EndOtherSessions(ctx, accountdb.EndOtherSessionsParams{UserID: session.UserID, SecretHash: session.hash()}),
			a.settings.EndRequests(ctx, tx, []uuid.UUID{session.UserID}),
		)
	})
	return postgres.WrapNoRows("account: forget a browser", err, nil)
}

// keyOf returns the key for a user, or the zero value.
func keyOf(keys []BrowserKey, userID uuid.UUID) BrowserKey {
	if i := slices.IndexFunc(keys, func(key BrowserKey) bool { return key.UserID == userID }); i >= 0 {
		return keys[i]
	}
	return BrowserKey{}
}

// BrowserName returns the common name of a browser and its system. Names that the library does not know are left out, because the
// sender can choose them.
func BrowserName(userAgent string) string {
	agent := useragent.Parse(userAgent[:min(len(userAgent), 512)])
	switch agent.Name {
	case useragent.Chrome, useragent.Firefox, useragent.Safari, useragent.Edge, useragent.Opera, useragent.SamsungBrowser, useragent.Vivaldi:
	case useragent.MobileSafari:
		agent.Name = useragent.Safari
	default:
		return ""
	}
	switch agent.OS {
	case useragent.Windows, useragent.MacOS, useragent.Linux, useragent.Android, useragent.IOS, useragent.ChromeOS:
		return agent.Name + " (" + agent.OS + ")"
	}
	return agent.Name
}
