package pages

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/oauth"
	"connect-svc/internal/web/site"
)

// endingLifetime is how long a browser keeps a request that has expired, so that a page can say why it has ended.
const endingLifetime = time.Hour

// authorize accepts an authorization request (specification 4.2) and redirects to the sign-in. One secret serves all
// requests of a browser, so that several tabs can be open; each new request prolongs its cookie.
func (p *pages) authorize(w http.ResponseWriter, r *http.Request) error {
	secret, had := secretIn(r, browserCookie)
	if !had {
		secret = newSecret()
	}
	urlLength := len("https://") + len(r.Host) + len(r.RequestURI)
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

// keeps is what this browser keeps of the request that the path names.
func keeps(r *http.Request) (asked oauth.SealedRequest, browser secret, err error) {
	if asked.ID, err = site.PathID(r, "request"); err != nil {
		return asked, browser, err
	}
	if cookie, err := r.Cookie(askedCookie); err == nil {
		asked.Sealed = cookie.Value
	}
	browser, _ = secretIn(r, browserCookie)
	return asked, browser, nil
}

// pending finds the request that the path names, by its sign-in or as it was asked for.
func (p *pages) pending(r *http.Request) (pending, error) {
	asked, browser, err := keeps(r)
	if err != nil {
		return pending{}, err
	}
	found := pending{asked: asked, browser: browser.hash(), base: requestPath(asked.ID)}
	if session, ok := p.requestSession(r); ok && session.request == asked.ID && session.browser == found.browser {
		found.session = session.Session
		found.Request, err = p.OAuth.Request(r.Context(), asked.ID, found.session.Hash())
	} else {
		found.Request, err = p.OAuth.OpenRequest(r.Context(), asked, found.browser)
	}
	return found, err
}

// requestSession is a sign-in to an authorization request.
type requestSession struct {
	oauth.Session
	request uuid.UUID
	browser [32]byte // hash of its secret
}

// requestSession is the sign-in that the browser kept.
func (p *pages) requestSession(r *http.Request) (session requestSession, ok bool) {
	cookie, err := r.Cookie(requestSessionCookie)
	if err != nil {
		return session, false
	}
	session.request, session.browser, session.Session, ok = p.OAuth.OpenSession(cookie.Value)
	return session, ok
}

// signInTo lets the browser know its sign-in to a request.
func (p *pages) signInTo(w http.ResponseWriter, request pending, session oauth.Session) error {
	sealed, err := p.OAuth.SealSession(request.asked.ID, request.browser, session)
	if err == nil {
		setCookieAt(w, request.base, requestSessionCookie, sealed, p.RequestLifetime+endingLifetime)
	}
	return err
}
