package pages

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"
)

// Names of cookies. Browsers accept the prefix __Host- only for this host, over TLS and for all paths.
const (
	browserCookie = "__Host-connect-browser" // secret of the browser, for authorization requests
	signInCookie  = "__Host-connect-sign-in" // secret of a sign-in to the account pages
	sessionCookie = "__Host-connect-account" // key of a session of the account pages
	goneCookie    = "__Host-connect-gone"    // name of the partner just disconnected, until the list has said so
)

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

func newSecret() (s secret) {
	rand.Read(s[:])
	return s
}

// cookieValue decodes a cookie; nil if there is none, or it is not one of ours.
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

// setCookie sets a cookie. SameSite is Lax and not Strict, because users come by a link or a redirect of the partner's
// site.
func setCookie(w http.ResponseWriter, name string, value []byte, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: secretEncoding.EncodeToString(value), Path: "/",
		MaxAge: int(lifetime.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func dropCookie(w http.ResponseWriter, name string) { setCookie(w, name, nil, -time.Second) }
