package browser

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"
)

// Their names begin with a promise that browsers keep: only this host, only over TLS, for all paths.
const (
	cookieName    = "__Host-connect-browser" // secret of the browser, for authorization requests
	signInCookie  = "__Host-connect-sign-in" // secret of a sign-in to the account pages
	sessionCookie = "__Host-connect-account" // key of a session of the account pages
	goneCookie    = "__Host-connect-gone"    // name of the company just disconnected, until the list has said so
)

// secret tells one browser from all others: 256 random bits.
type secret [32]byte

var secretEncoding = base64.RawURLEncoding.Strict()

// hash is what the domain may know of it.
func (s secret) hash() [sha256.Size]byte { return sha256.Sum256(s[:]) }

// secretOf finds the browser's secret in its cookie.
func secretOf(r *http.Request) (secret, bool) { return secretIn(r, cookieName) }

func secretIn(r *http.Request, name string) (s secret, ok bool) {
	value := cookieValue(r, name)
	if len(value) != len(s) {
		return s, false
	}
	return secret(value), true
}

// newSecret makes the secret of a browser that has none.
func newSecret() (s secret) {
	rand.Read(s[:])
	return s
}

// keep gives the browser its secret for as long as a request lives that was just opened. One secret serves all requests
// of a browser, so that they can stand in several tabs.
func (s secret) keep(w http.ResponseWriter, lifetime time.Duration) {
	setCookie(w, cookieName, s[:], lifetime)
}

// cookieValue is what a cookie holds; nil where there is no such cookie, or none of ours.
func cookieValue(r *http.Request, name string) []byte {
	cookie, err := r.Cookie(name)
	if err != nil {
		return nil
	}
	value, err := secretEncoding.DecodeString(cookie.Value)
	if err != nil {
		return nil
	}
	return value
}

// setCookie gives the browser a cookie. SameSite is Lax and not Strict, because the way here begins with a link or a
// redirect on the partner's site.
func setCookie(w http.ResponseWriter, name string, value []byte, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: secretEncoding.EncodeToString(value), Path: "/",
		MaxAge: int(lifetime.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// dropCookie takes a cookie away.
func dropCookie(w http.ResponseWriter, name string) { setCookie(w, name, nil, -time.Second) }
