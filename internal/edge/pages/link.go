package pages

import (
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
)

// elsewhere is about the link of an email in the browser that asked for it. In any other browser the link opens a page that says
// where to enter the code, and does nothing: so somebody who sends a link of his own to others signs nobody in.
func (p *pages) elsewhere(find func(*http.Request) (signIn, error), handle site.About[signIn]) site.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := site.Given(find, handle)(w, r)
		if errors.Is(err, oauth.ErrRequestEnded) {
			if cause, _, _ := p.ending(r); cause != string(oauth.EndedElsewhere) {
				return err
			}
		} else if !errors.Is(err, account.ErrNoSignIn) {
			return err
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
