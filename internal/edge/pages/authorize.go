package pages

import (
	"bytes"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
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
	if err := keepRequest(w, r, asked, !had, p.RequestLifetime+endingLifetime); err != nil {
		return err
	}
	return site.Redirect(requestPath(asked.ID) + "/sign-in")
}

// pending is an authorization request that waits for the user's decision in this browser.
type pending struct {
	oauth.Request
	asked   oauth.SealedRequest // as the browser keeps it
	outcome string              // of the user's decision: decided, denied, or empty before
	browser [32]byte            // hash of the secret that opened the request
	session oauth.Session       // once somebody has signed in
	sealed  string              // the session as the browser keeps it; empty before
	base    string              // of its paths
}

// hasSession reports whether somebody has signed in, also after the request has ended.
func (p pending) hasSession() bool { return p.sealed != "" }

// keeps returns what this browser keeps of the request that the path names.
func keeps(r *http.Request) (request pending, err error) {
	request.asked.ID, err = site.PathID(r, "request")
	request.asked.Sealed, request.outcome, _ = strings.Cut(cookieText(r, askedCookie), ".")
	if bytes.HasPrefix(cookieValue(r, askedCookie), []byte(decided+":")) { // until 1.3.0: from a page of 1.0.0
		request.outcome = decided
	}
	secret, _ := secretIn(r, browserCookie)
	request.browser, request.base = secret.hash(), requestPath(request.asked.ID)
	return request, err
}

// pending finds the request that the path names, by its sign-in or by what was asked for. After a decision it returns
// oauth.ErrRequestEnded and what the browser keeps.
func (p *pages) pending(r *http.Request) (pending, error) {
	request, err := keeps(r)
	if err != nil {
		return request, err
	}
	session, invalid := p.OAuth.OpenSession(cookieText(r, requestSessionCookie))
	if invalid == nil && session.RequestID == request.asked.ID && session.Browser == request.browser {
		request.session, request.sealed = session, cookieText(r, requestSessionCookie)
		if request.Request, err = p.OAuth.Request(r.Context(), request.asked.ID, session.Hash()); !errors.Is(err, oauth.ErrRequestEnded) {
			return request, err
		}
		// If "Not you?" is pressed twice, the browser drops the first answer with its cookies.
		out, failure := p.OAuth.IsSignedOut(r.Context(), request.asked.ID, request.browser)
		if failure != nil {
			return request, failure
		}
		if !out {
			return request, err
		}
		request.session, request.sealed = oauth.Session{}, ""
	}
	if request.outcome != "" {
		return request, oauth.ErrRequestEnded
	}
	request.Request, err = p.OAuth.OpenRequest(r.Context(), request.asked, request.browser)
	return request, err
}
