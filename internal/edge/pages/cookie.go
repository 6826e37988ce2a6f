package pages

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/refusal"
)

// Names of cookies. Browsers accept the prefix __Host- only for this host, over TLS and for all paths.
const (
	browserCookie = "__Host-connect-browser" // secret of the browser, for authorization requests
	signInCookie  = "__Host-connect-sign-in" // id of a sign-in to the account pages, sealed
	sessionCookie = "__Host-connect-account" // key of a session of the account pages, sealed
	knownCookie   = "__Host-connect-known"   // keys of former sign-ins in this browser, of several users
)

// Names of the cookies of an authorization request, which browsers send to its own paths alone: several requests may be under way in
// the tabs of a browser, and each is as large as the partner's state. Without the prefix __Host-, which they cannot have, another
// host of the same site could set them: so each is sealed and bound to the secret in browserCookie.
const (
	askedCookie          = "__Secure-connect-request" // what was asked for, sealed, and that it was decided
	requestSessionCookie = "__Secure-connect-session" // the sign-in to it, sealed
	typedCookie          = "__Secure-connect-typed"   // that an address was typed, here or for the account pages: it proves nothing
)

// requestPath is where the cookies of a request are sent.
func requestPath(id uuid.UUID) string { return "/authorize/" + id.String() }

// secret identifies a browser: 256 random bits.
type secret [32]byte

var secretEncoding = base64.RawURLEncoding.Strict()

// hash is what the domain knows of the secret.
func (s secret) hash() [sha256.Size]byte { return sha256.Sum256(s[:]) }

// secretIn reads the secret in the named cookie.
func secretIn(r *http.Request, name string) (s secret, ok bool) {
	value := cookieValue(r, name)
	if len(value) != len(s) {
		return s, false
	}
	return secret(value), true
}

// cookieValue decodes a cookie; nil if there is none, or it is not one of ours.
func cookieValue(r *http.Request, name string) []byte {
	value, err := secretEncoding.DecodeString(cookieText(r, name))
	if err != nil {
		return nil
	}
	return value
}

// cookieText returns a cookie; empty if there is none.
func cookieText(r *http.Request, name string) string {
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// decided or denied follows what was asked for in askedCookie, after a dot, once the user has decided. With it the pages of the request say
// that it was decided.
const (
	decided = "decided"
	denied  = "denied"
)

// maxKnown is how many users' keys a browser keeps.
const maxKnown = 4

// knownKeys reads the keys of former sign-ins in this browser.
func knownKeys(r *http.Request) []account.BrowserKey {
	value := cookieValue(r, knownCookie)
	keys := make([]account.BrowserKey, len(value)/binary.Size(account.BrowserKey{}))
	if len(keys) > maxKnown || binary.Size(keys) != len(value) {
		return nil
	}
	_, _ = binary.Decode(value, binary.BigEndian, keys) // has the size
	return keys
}

// remember gives the browser a key for the user who has just signed in. It does nothing if the user was deleted since: the next page says
// what that means.
func (p *pages) remember(w http.ResponseWriter, r *http.Request, key account.BrowserKey) error {
	keys := knownKeys(r)
	err := p.Accounts.RememberBrowser(r.Context(), key, keys, r.UserAgent(), p.site.Locale(r).Tag)
	if errors.Is(err, refusal.ErrUserNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(other account.BrowserKey) bool { return other.UserID == key.UserID })
	keys = append([]account.BrowserKey{key}, keys[:min(len(keys), maxKnown-1)]...)
	value, err := binary.Append(nil, binary.BigEndian, keys)
	if err != nil {
		return err
	}
	setCookie(w, knownCookie, encoded(value), account.BrowserLifetime)
	return nil
}

// setCookie sets a cookie. SameSite is Lax and not Strict, because users come by a link or a redirect of the partner's
// site.
func setCookie(w http.ResponseWriter, name, value string, lifetime time.Duration) {
	setCookieAt(w, "/", name, value, lifetime)
}

// setCookieAt sets a cookie for a path and what is below it.
func setCookieAt(w http.ResponseWriter, path, name, value string, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: path,
		MaxAge: int(lifetime.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func dropCookie(w http.ResponseWriter, name string) { setCookie(w, name, "", -time.Second) }

// encoded is a value that browsers keep as it is.
func encoded(value []byte) string { return secretEncoding.EncodeToString(value) }
