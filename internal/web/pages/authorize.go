package pages

import (
	"crypto/rand"
	"net/http"
	"time"

	"connect-svc/internal/oauth"
	"connect-svc/internal/web/site"
)

// endingLifetime is how long a browser keeps a request that has expired, so that a page can say why it has ended.
const endingLifetime = time.Hour

// authorize accepts an authorization request (specification 4.2) and redirects to the sign-in. All requests of a browser share one
// secret, so that several tabs can be open. Each new request extends the lifetime of its cookie.
func (p *pages) authorize(w http.ResponseWriter, r *http.Request) error {
	secret, had := secretIn(r, browserCookie)
	if !had {
		rand.Read(secret[:])
	}
	urlLength := len(p.BaseURL) + len(r.URL.RequestURI()) // not with the Host, which a proxy may have changed
	asked, err := p.OAuth.Authorize(r.Context(), r.URL.RawQuery, urlLength, secret.hash())
	if err != nil {
		return err
	}
	setCookie(w, browserCookie, encoded(secret[:]), p.RequestLifetime+endingLifetime)
	setCookieAt(w, requestPath(asked.ID), askedCookie, asked.Sealed, p.RequestLifetime+endingLifetime)
	return site.Redirect(requestPath(asked.ID) + "/sign-in")
}

// pending is an authorization request that waits for the user's decision in this browser.
type pending struct {
	oauth.Request
	asked   oauth.SealedRequest // as the browser keeps it
	browser [32]byte            // hash of the secret that opened the request
	session oauth.Session       // once somebody has signed in
	base    string              // of its paths
}

// keeps returns what this browser keeps of the request that the path names, and the hash of the browser's secret.
func keeps(r *http.Request) (asked oauth.SealedRequest, browser [32]byte, err error) {
	asked.ID, err = site.PathID(r, "request")
	asked.Sealed = cookieText(r, askedCookie)
	secret, _ := secretIn(r, browserCookie)
	return asked, secret.hash(), err
}

// pending finds the request that the path names, by its sign-in or by what was asked for.
func (p *pages) pending(r *http.Request) (pending, error) {
	asked, browser, err := keeps(r)
	if err != nil {
		return pending{}, err
	}
	found := pending{asked: asked, browser: browser, base: requestPath(asked.ID)}
	if session, ok := p.requestSession(r); ok && session.RequestID == asked.ID && session.Browser == found.browser {
		found.session = session
		found.Request, err = p.OAuth.Request(r.Context(), asked.ID, found.session.Hash())
	} else {
		found.Request, err = p.OAuth.OpenRequest(r.Context(), asked, found.browser)
	}
	return found, err
}

// requestSession opens the sign-in to a request that the browser kept.
func (p *pages) requestSession(r *http.Request) (session oauth.Session, ok bool) {
	session, err := p.OAuth.OpenSession(cookieText(r, requestSessionCookie))
	return session, err == nil
}
