package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/mileusna/useragent"

	"connect-svc/internal/postgres"
)

// BrowserLifetime is how long a browser is known, from the last sign-in in it on.
const BrowserLifetime = 180 * 24 * time.Hour

// BrowserKey proves that a browser has signed in to an account before. It signs nobody in: it only gives the browser a
// budget of codes and guesses of its own, so that the owner of an account gets in while somebody else guesses.
type BrowserKey struct {
	UserID uuid.UUID
	Secret [32]byte
}

// id is what the database knows of the secret: half of its hash, which nobody can turn around either.
func (k BrowserKey) id() uuid.UUID {
	hash := sha256.Sum256(k.Secret[:])
	return uuid.UUID(hash[:16])
}

// Browser is a known browser, as its user sees it.
type Browser struct {
	ID         uuid.UUID
	Name       string // such as "Firefox (Linux)"; empty where the browser does not say
	SignedInAt time.Time
}

// RememberBrowser makes a browser known in which a user has just signed in. Ten are known of an account: one more replaces the one that
// has not signed in for the longest time. The key replaces the one that the browser had
// for this user, if it is among its keys. Error: refusal.ErrUserNotFound, where the user was deleted meanwhile.
func (a *Accounts) RememberBrowser(ctx context.Context, userID uuid.UUID, keys []BrowserKey, userAgent string) (BrowserKey, error) {
	key := BrowserKey{UserID: userID}
	rand.Read(key.Secret[:])
	return key, a.rememberBrowser(ctx, key, keyOf(keys, userID), browserName(userAgent))
}

// Browsers returns the known browsers of a user, the latest sign-in first.
func (a *Accounts) Browsers(ctx context.Context, userID uuid.UUID) ([]Browser, error) {
	rows, err := a.queries.ListBrowsers(ctx, userID)
	browsers := make([]Browser, len(rows))
	for i, row := range rows {
		browsers[i] = Browser{ID: row.BrowserID, Name: row.Name, SignedInAt: row.SignedInAt}
	}
	return browsers, postgres.Wrap("account: list browsers", err)
}

// Is reports whether the browser with these keys is this one.
func (b Browser) Is(keys []BrowserKey) bool {
	return slices.ContainsFunc(keys, func(key BrowserKey) bool { return key.id() == b.ID })
}

// keyOf is the key for a user, or the zero value.
func keyOf(keys []BrowserKey, userID uuid.UUID) BrowserKey {
	for _, key := range keys {
		if key.UserID == userID {
			return key
		}
	}
	return BrowserKey{}
}

// browserName is what people call a browser. Names and systems that the library does not know are the sender's own text,
// and are left out.
func browserName(userAgent string) string {
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
