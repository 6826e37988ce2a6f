package browser

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/account"
)

// accountBase is what the paths of the account pages begin with.
const accountBase = "/account"

// signInLifetime is how long the browser keeps the secret of a sign-in: longer than a code is valid, so that the user is
// told of a code that came too late.
const signInLifetime = 30 * time.Minute

// signInID is the sign-in that the secret is for. It is a hash, so that only the browser knows how to go on with it.
func (s secret) signInID() uuid.UUID {
	hash := s.hash()
	return uuid.UUID(hash[:16])
}

// signingToAccount is the sign-in to the account pages that is under way in this browser, or a new one. Where somebody is
// signed in already it sends the browser on.
func (p *pages) signingToAccount(w http.ResponseWriter, r *http.Request) (own secret, s signing, ok bool, err error) {
	if _, err := p.session(r); err == nil {
		seeOther(w, accountBase)
		return own, s, false, nil
	} else if !errors.Is(err, account.ErrNoSession) {
		return own, s, false, err
	}
	own, had := secretIn(r, signInCookie)
	if !had {
		own = newSecret()
	}
	return own, signing{own.signInID(), view{Base: accountBase, Minutes: minutes(account.SessionLifetime)}}, true, nil
}

func (p *pages) showAccountSignIn(w http.ResponseWriter, r *http.Request) error {
	_, s, ok, err := p.signingToAccount(w, r)
	if !ok {
		return err
	}
	s.view.News = r.URL.RawQuery
	return p.askAddress(w, r, s, "account-sign-in")
}

func (p *pages) signInToAccount(w http.ResponseWriter, r *http.Request) error {
	own, s, ok, err := p.signingToAccount(w, r)
	if !ok {
		return err
	}
	setCookie(w, signInCookie, own[:], signInLifetime)
	return p.takeAddress(w, r, s, "account-sign-in")
}

func (p *pages) newAccountCode(w http.ResponseWriter, r *http.Request) error {
	own, s, ok, err := p.signingToAccount(w, r)
	if !ok {
		return err
	}
	setCookie(w, signInCookie, own[:], signInLifetime)
	return p.sendAnother(w, r, s)
}

func (p *pages) showAccountCode(w http.ResponseWriter, r *http.Request) error {
	_, s, ok, err := p.signingToAccount(w, r)
	if !ok {
		return err
	}
	return p.askCode(w, r, s, http.StatusOK, "")
}

// enterAccountCode starts the session. The sign-in has served its purpose, and the browser forgets it.
func (p *pages) enterAccountCode(w http.ResponseWriter, r *http.Request) error {
	_, s, ok, err := p.signingToAccount(w, r)
	if !ok {
		return err
	}
	form, err := readForm(w, r, "code")
	if err != nil {
		return err
	}
	key, err := p.Accounts.StartSession(r.Context(), s.id, form["code"])
	if problem := codeProblem(err); problem != "" {
		return p.askCode(w, r, s, http.StatusUnprocessableEntity, problem)
	}
	if err != nil {
		return err
	}
	dropCookie(w, signInCookie)
	setCookie(w, sessionCookie, append(key.UserID[:], key.Secret[:]...), account.SessionLifetime)
	seeOther(w, accountBase)
	return nil
}

// signOut ends the session, if there still is one.
func (p *pages) signOut(w http.ResponseWriter, r *http.Request) error {
	if _, err := readForm(w, r); err != nil {
		return err
	}
	if key, ok := sessionKeyOf(r); ok {
		if err := p.Accounts.EndSession(r.Context(), key); err != nil {
			return err
		}
	}
	dropCookie(w, sessionCookie)
	seeOther(w, accountBase+"/sign-in?signed-out")
	return nil
}

// sessionKeyOf finds the key of the session in its cookie: the user's id and the secret.
func sessionKeyOf(r *http.Request) (key account.SessionKey, ok bool) {
	value := cookieValue(r, sessionCookie)
	if len(value) != len(key.UserID)+len(key.Secret) {
		return key, false
	}
	copy(key.UserID[:], value)
	copy(key.Secret[:], value[len(key.UserID):])
	return key, true
}

// session tells who is signed in. Error: account.ErrNoSession.
func (p *pages) session(r *http.Request) (account.User, error) {
	key, ok := sessionKeyOf(r)
	if !ok {
		return account.User{}, account.ErrNoSession
	}
	return p.Accounts.GetSession(r.Context(), key)
}

// signedIn is the user of the session; where there is none it sends the browser to the sign-in, which says why unless
// the visit had just begun.
func (p *pages) signedIn(w http.ResponseWriter, r *http.Request) (user account.User, ok bool, err error) {
	user, err = p.session(r)
	if errors.Is(err, account.ErrNoSession) {
		why := "?ended"
		if r.URL.Path == accountBase {
			why = ""
		}
		seeOther(w, accountBase+"/sign-in"+why)
		return user, false, nil
	}
	return user, err == nil, err
}
