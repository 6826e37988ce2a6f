package pages

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/edge/site"
)

// accountBase is the prefix of the paths of the account pages.
const accountBase = "/account"

// signInLifetime is how long the browser keeps the id of a sign-in. It is longer than a code is valid, so that a
// page can say that a code was entered too late.
const signInLifetime = 30 * time.Minute

// accountSignIn is the sign-in to the account pages that is under way in this browser, or a new one.
func (p *pages) accountSignIn(r *http.Request) (signIn, error) {
	if _, err := p.session(r); err == nil {
		return signIn{}, site.Redirect(accountBase)
	} else if !errors.Is(err, account.ErrNoSession) {
		return signIn{}, err
	}
	id, begun := p.Accounts.OpenSignIn(cookieText(r, signInCookie))
	if !begun {
		id = uuid.New()
	}
	sealed, err := p.Accounts.SealSignIn(id)
	return signIn{
		id: id, begun: begun, page: "account-sign-in",
		view:     view{Base: accountBase, Minutes: minutes(account.SessionLifetime)},
		remember: func(w http.ResponseWriter) { setCookie(w, signInCookie, sealed, signInLifetime) },
		finish: func(w http.ResponseWriter, r *http.Request, verified account.Verified) error {
			key, err := p.Accounts.StartSession(r.Context(), id, verified)
			if err != nil {
				return err
			}
			dropCookie(w, signInCookie)
			session, err := p.Accounts.SealSession(key)
			if err != nil {
				return err
			}
			setCookie(w, sessionCookie, session, account.SessionLifetime)
			if err := p.remember(w, r, verified.Browser); err != nil {
				return err
			}
			return site.Redirect(accountBase)
		},
	}, err
}

// signOut ends the session, if there still is one.
func (p *pages) signOut(w http.ResponseWriter, r *http.Request) error {
	if _, err := site.ReadForm(w, r); err != nil {
		return err
	}
	if key, ok := p.sessionKey(r); ok {
		if err := p.Accounts.EndSession(r.Context(), key); err != nil {
			return err
		}
	}
	dropCookie(w, sessionCookie)
	return site.Redirect(accountBase + "/sign-in?signed-out")
}

// sessionKey reads the key of the session from its cookie.
func (p *pages) sessionKey(r *http.Request) (key account.SessionKey, ok bool) {
	return p.Accounts.OpenSession(cookieText(r, sessionCookie))
}

// session returns the user who is signed in. Error: account.ErrNoSession.
func (p *pages) session(r *http.Request) (account.User, error) {
	key, ok := p.sessionKey(r)
	if !ok {
		return account.User{}, account.ErrNoSession
	}
	return p.Accounts.GetSession(r.Context(), key)
}

// signedIn returns the user who is signed in. Without one it redirects to the sign-in, which says why unless the user has
// just come to the first page.
func (p *pages) signedIn(r *http.Request) (account.User, error) {
	user, err := p.session(r)
	switch {
	case !errors.Is(err, account.ErrNoSession):
		return user, err
	case r.URL.Path == accountBase:
		return user, site.Redirect(accountBase + "/sign-in")
	}
	return user, site.Redirect(accountBase + "/sign-in?ended")
}
