package browser

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"
)

// cookieName begins with a promise that browsers keep: only this host, only over TLS, for all paths.
const cookieName = "__Host-connect-browser"

// secret tells one browser from all others: 256 random bits.
type secret [32]byte

var secretEncoding = base64.RawURLEncoding.Strict()

// hash is what the domain may know of it.
func (s secret) hash() [sha256.Size]byte { return sha256.Sum256(s[:]) }

// secretOf finds the browser's secret in its cookie.
func secretOf(r *http.Request) (s secret, ok bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return s, false
	}
	value, err := secretEncoding.DecodeString(cookie.Value)
	if err != nil || len(value) != len(s) {
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
//
// SameSite is Lax and not Strict, because the way here begins with a link or a redirect on the partner's site.
func (s secret) keep(w http.ResponseWriter, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: secretEncoding.EncodeToString(s[:]), Path: "/",
		MaxAge: int(lifetime.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
