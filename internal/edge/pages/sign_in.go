package pages

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/telemetry"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// signIn is a sign-in under way, for an authorization request or for the account pages. Its pages are the same for both
// but for the first one.
type signIn struct {
	id       uuid.UUID
	begun    bool                                                                          // in this browser, by an address or an authorization request
	page     string                                                                        // name of the first page, which asks for the address
	until    time.Time                                                                     // when what it is for ends, or zero if later than its codes
	view     view                                                                          // what all its pages show
	remember func(http.ResponseWriter)                                                     // lets the browser know the sign-in
	finish   func(w http.ResponseWriter, r *http.Request, verified account.Verified) error // signs in and redirects
}

// routeSignIn serves the pages of a sign-in under base. find returns the sign-in that is under way in the browser; where
// somebody has signed in already it redirects, so that going back or submitting a form again leads to where the user is.
func (p *pages) routeSignIn(router chi.Router, base string, find func(*http.Request) (signIn, error)) {
	begun := func(r *http.Request) (signIn, error) {
		s, err := find(r)
		if err == nil && !s.begun {
			err = account.ErrNoSignIn
		}
		return s, err
	}
	// Without a sign-in these pages redirect to the form for the address, which says why if the browser lacks the cookie of one, or it was long ago.
	orBegin := func(handle site.About[signIn]) http.HandlerFunc {
		return p.page(func(w http.ResponseWriter, r *http.Request) error {
			err := site.Given(begun, handle)(w, r)
			_, asked := p.Accounts.OpenSignIn(cookieText(r, signInCookie))
			switch {
			case !errors.Is(err, account.ErrNoSignIn):
				return err
			case base == accountBase && cookieText(r, signInCookie) == "":
				return site.Redirect(base + "/sign-in?not-begun")
			case base == accountBase && asked && r.Method == http.MethodPost: // a form of a code that was swept
				return site.Redirect(base + "/sign-in?late")
			}
			return site.Redirect(baseOf(r) + "/sign-in")
		})
	}
	router.Get(base+"/sign-in", p.page(site.Given(find, p.askAddress)))
	router.Post(base+"/sign-in", p.page(site.Given(find, p.takeAddress)))
	router.Get(base+"/code", orBegin(p.askCode))
	router.Post(base+"/code", orBegin(p.takeCode))
	router.Post(base+"/new-code", orBegin(p.sendNewCode))
	router.Get(base+"/link/{link}", p.page(p.elsewhere(begun, p.askLink)))
	router.Post(base+"/link/{link}", p.page(p.elsewhere(begun, p.takeLink)))
}

// requestSignIn is the sign-in for a pending authorization request.
func (p *pages) requestSignIn(r *http.Request) (signIn, error) {
	request, err := p.pending(r)
	if err != nil {
		return signIn{}, err
	}
	if request.SignedIn {
		return signIn{}, site.Redirect(request.base + "/consent")
	}
	return signIn{
		id: request.asked.ID, begun: true, page: "sign-in", until: request.ExpiresAt, view: p.view(request),
		remember: func(http.ResponseWriter) {}, // the browser has the cookie of the request
		finish: func(w http.ResponseWriter, r *http.Request, verified account.Verified) error {
			session := oauth.Session{
				RequestID: request.asked.ID, UserID: verified.UserID, Browser: request.browser, Secret: verified.Secret,
			}
			if err := p.OAuth.SignIn(r.Context(), request.asked, request.browser, session.Hash(), verified.UserID); err != nil {
				return err
			}
			sealed, err := p.OAuth.SealSession(session)
			if err != nil {
				return err
			}
			if err = p.remember(w, r, request.asked.ID, verified.Browser); errors.Is(err, account.ErrNoSignIn) {
				err = p.OAuth.SignOut(r.Context(), request.asked.ID, session.Hash()) // the end of the sign-in may have missed this one
			}
			if err != nil {
				return err
			}
			setCookieAt(w, request.base, requestSessionCookie, sealed, p.RequestLifetime+endingLifetime) // last: without it the same code completes the rest
			return site.Redirect(request.base + "/consent")
		},
	}, nil
}

// askAddress shows the form for the address. After "use another address" it is filled in with the one that was typed, and soon after a
// sign-in in this browser, unless that was followed by a sign-out, with the address of that. All others come for the first time, and cost
// nothing.
func (p *pages) askAddress(w http.ResponseWriter, r *http.Request, s signIn) error {
	s.view.News = r.URL.RawQuery
	if _, err := r.Cookie(typedCookie); err == nil {
		if s.begun {
			typed, err := p.Accounts.GetSignIn(r.Context(), s.id)
			if err != nil && !errors.Is(err, account.ErrNoSignIn) {
				return err
			}
			s.view.Email = typed.Email
		}
		if keys := knownKeys(r); s.view.Email == "" && len(keys) > 0 {
			if s.view.Email, err = p.Accounts.RecentAddress(r.Context(), keys[0]); err != nil {
				return err
			}
		}
	}
	p.form(w, r, http.StatusOK, s.page, s.view)
	return nil
}

// takeAddress sends a code to the address. Everything is the same without an account, except that no email is sent.
func (p *pages) takeAddress(w http.ResponseWriter, r *http.Request, s signIn) error {
	s.remember(w)
	form, err := site.ReadForm(w, r, "email")
	if err != nil {
		return err
	}
	err = p.sendCode(r, s, form["email"])
	if errors.Is(err, account.ErrInvalidEmail) {
		s.view.Email, s.view.Problem = form["email"], "address"
		p.form(w, r, http.StatusUnprocessableEntity, s.page, s.view)
		return nil
	}
	if err != nil {
		return err
	}
	setCookieAt(w, s.view.Base, typedCookie, "1", signInLifetime)
	return site.Redirect(s.view.Base + "/code")
}

// sendNewCode sends another code to the same address.
func (p *pages) sendNewCode(w http.ResponseWriter, r *http.Request, s signIn) error {
	s.remember(w)
	if _, err := site.ReadForm(w, r); err != nil {
		return err
	}
	typed, err := p.Accounts.GetSignIn(r.Context(), s.id)
	if err != nil {
		return err
	}
	return cmp.Or[error](p.sendCode(r, s, typed.Email), site.Redirect(s.view.Base+"/code?again"))
}

func (p *pages) sendCode(r *http.Request, s signIn, email string) error {
	err := p.Accounts.SendCode(r.Context(), account.CodeRequest{
		SignIn: s.id, Email: email, Network: p.TrustedProxies.Address(r), Known: knownKeys(r), Partner: s.view.Partner.Name,
		LinkPath: s.view.Base + "/link", Until: s.until, Browser: account.BrowserName(r.UserAgent()), Language: p.site.Locale(r).Tag,
	})
	event := telemetry.EventOf(r.Context())
	event.CodeSent, event.CodeFor = err == nil, s.view.Partner.ClientID
	return err
}

// takeCode signs the user in with the code of the email.
func (p *pages) takeCode(w http.ResponseWriter, r *http.Request, s signIn) error {
	form, err := site.ReadForm(w, r, "code")
	if err != nil {
		return err
	}
	verified, err := p.Accounts.VerifyCode(r.Context(), s.id, form["code"])
	if err == nil {
		err = s.finish(w, r, verified)
	}
	var wrong *account.WrongCodeError
	event := telemetry.EventOf(r.Context())
	event.CodeTried, event.CodeFor = verified.UserID != uuid.Nil || errors.As(err, &wrong), s.view.Partner.ClientID
	switch {
	case errors.Is(err, account.ErrMalformedCode):
		return site.Redirect(s.view.Base + "/code?malformed")
	case errors.Is(err, account.ErrOlderCode):
		return site.Redirect(s.view.Base + "/code?older")
	case errors.As(err, &wrong), errors.Is(err, account.ErrCodeSpent), errors.Is(err, account.ErrCodeExpired),
		errors.Is(err, account.ErrCodeNotSent):
		return site.Redirect(s.view.Base + "/code?wrong")
	}
	return err
}

// askCode shows the state of the sign-in. If the code can no longer be used, the page says so and nothing else. The problem with a
// code comes by a redirect, so that reloading the page enters nothing again.
func (p *pages) askCode(w http.ResponseWriter, r *http.Request, s signIn) error {
	typed, err := p.mailed(r, s)
	if err != nil {
		return err
	}
	v, next := s.view, time.Time{}
	v.Email, v.AttemptsLeft, v.NoCodes, v.Left = typed.Email, typed.AttemptsLeft, typed.NoCodes, typed.Left
	if typed.Mail == account.MailWaiting {
		p.form(w, r, http.StatusOK, "sending", v)
		return nil
	}
	if next, v.Wait, err = p.Accounts.NextCode(r.Context(), account.CodeRequest{
		Email: typed.Email, Network: p.TrustedProxies.Address(r), Known: knownKeys(r),
	}); err != nil {
		return err
	}
	v.Restart = !s.until.IsZero() && next.After(s.until) // both by the database's clock
	if typed.Mail == account.MailFailed {
		p.form(w, r, http.StatusOK, "unavailable", v)
		return nil
	}
	switch news := r.URL.RawQuery; {
	case typed.Expired:
		v.Problem = "expired"
	case typed.NoCodes && news != "old-link":
		v.Problem = "no-codes"
	case typed.AttemptsLeft == 0 && !typed.NoCodes:
		v.Problem = "spent"
	case news == "malformed", news == "older", news == "old-link", news == "wrong" && typed.AttemptsLeft < account.Attempts:
		v.Problem = news
	case news == "again":
		v.SentAgain = true
	}
	p.form(w, r, http.StatusOK, "code", v)
	return nil
}

// mailPoll is how often a page that waits for the email to leave looks whether it has.
const mailPoll = 100 * time.Millisecond

// mailed returns the sign-in once its email was sent or given up, or has taken too long. So the page seldom has to say that the email
// is on its way. The wait does not depend on whether the address has an account.
func (p *pages) mailed(r *http.Request, s signIn) (account.SignIn, error) {
	look := time.NewTicker(mailPoll)
	defer look.Stop()
	for end := time.After(p.Limits.Mail); ; {
		typed, err := p.Accounts.GetSignIn(r.Context(), s.id)
		if err != nil || typed.Mail != account.MailWaiting {
			return typed, err
		}
		select {
		case <-look.C:
		case <-end:
			return typed, nil
		}
	}
}

// form shows a page of the sign-in. On those of a request there is a button that leads back to the partner.
func (p *pages) form(w http.ResponseWriter, r *http.Request, status int, name string, v view) {
	v.Invalid = v.Problem != ""
	if v.Partner.Name != "" {
		p.writeDecision(w, r, status, name, v)
		return
	}
	p.site.Write(w, r, status, name, v)
}

// elsewhere is about the link of an email in the browser that asked for it. In any other browser the link opens a page that says
// where to enter the code, and does nothing: so somebody who sends a link of his own to others signs nobody in.
func (p *pages) elsewhere(find func(*http.Request) (signIn, error), handle site.About[signIn]) site.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := site.Given(find, handle)(w, r)
		if errors.Is(err, oauth.ErrRequestEnded) {
			if p.ending(r).Cause != oauth.EndedElsewhere {
				return err
			}
		} else if !errors.Is(err, account.ErrNoSignIn) {
			return err
		} else if _, asked := p.Accounts.OpenSignIn(cookieText(r, signInCookie)); asked && baseOf(r) == accountBase { // and the link was swept
			return site.Redirect(accountBase + "/sign-in?late-link")
		}
		p.site.Write(w, r, http.StatusOK, "link-elsewhere", view{})
		return nil
	}
}

// askLink asks whether to sign in with a link: opening it changes nothing, because programs that look at emails open links, too.
func (p *pages) askLink(w http.ResponseWriter, r *http.Request, s signIn) error {
	if err := p.Accounts.CheckLink(r.Context(), s.id, chi.URLParam(r, "link")); err != nil {
		return refusedLink(s, err)
	}
	typed, err := p.Accounts.GetSignIn(r.Context(), s.id)
	if err != nil {
		return err
	}
	s.view.Email, s.view.Link = typed.Email, r.URL.Path
	p.form(w, r, http.StatusOK, "link", s.view)
	return nil
}

// takeLink signs the user in.
func (p *pages) takeLink(w http.ResponseWriter, r *http.Request, s signIn) error {
	if _, err := site.ReadForm(w, r); err != nil {
		return err
	}
	verified, err := p.Accounts.VerifyLink(r.Context(), s.id, chi.URLParam(r, "link"))
	if err != nil {
		return refusedLink(s, err)
	}
	return s.finish(w, r, verified)
}

// refusedLink has the page of the code say why a link does not sign in.
func refusedLink(s signIn, err error) error {
	switch {
	case errors.Is(err, account.ErrWrongLink):
		return site.Redirect(s.view.Base + "/code?old-link")
	case errors.Is(err, account.ErrCodeExpired), errors.Is(err, account.ErrCodeNotSent):
		return site.Redirect(s.view.Base + "/code")
	}
	return err
}
