package pages

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"connect-svc/internal/oauth"
	"connect-svc/internal/web/site"
)

// authorize accepts an authorization request (specification 4.2) and redirects to the sign-in. One secret serves all
// requests of a browser, so that several tabs can be open; each new request prolongs its cookie.
func (p *pages) authorize(w http.ResponseWriter, r *http.Request) error {
	secret, had := secretIn(r, browserCookie)
	if !had {
		secret = newSecret()
	}
	urlLength := len("https://") + len(r.Host) + len(r.RequestURI)
	id, err := p.OAuth.Authorize(r.Context(), r.URL.RawQuery, urlLength, secret.hash())
	if err != nil {
		return err
	}
	setCookie(w, browserCookie, secret[:], p.RequestLifetime)
	return site.Redirect("/authorize/" + id.String() + "/sign-in")
}

// pending is an authorization request that waits for the user's decision in this browser.
type pending struct {
	oauth.Request
	id      uuid.UUID
	browser [32]byte // hash of the secret that opened the request, or of its sign-in's once the user has signed in
	base    string   // of its paths
}

// pending finds the request that the path names, by the secret of its sign-in or by the one that opened it.
func (p *pages) pending(r *http.Request) (pending, error) {
	id, err := site.PathID(r, "request")
	if err != nil {
		return pending{}, err
	}
	for _, cookie := range []string{requestCookie(id), browserCookie} {
		secret, ok := secretIn(r, cookie)
		if !ok {
			continue
		}
		request, err := p.OAuth.Request(r.Context(), id, secret.hash())
		if errors.Is(err, oauth.ErrRequestEnded) {
			continue
		}
		return pending{request, id, secret.hash(), "/authorize/" + id.String()}, err
	}
	return pending{}, oauth.ErrRequestEnded
}
