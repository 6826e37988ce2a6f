package browser

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/oauth"
)

// signing is a sign-in under way, for an authorization request or for the account pages, where no company asks.
type signing struct {
	id   uuid.UUID
	view view // what its pages begin with
}

// unsigned is the pending request if nobody has signed in for it; otherwise it sends the browser on to the consent, so
// that going back or sending a form again leads to where the user is.
func (p *pages) unsigned(w http.ResponseWriter, r *http.Request) (request pending, s signing, ok bool, err error) {
	request, err = p.pending(r)
	if err == nil && request.SignedIn {
		seeOther(w, request.base+"/consent")
		return request, s, false, nil
	}
	return request, signing{request.id, p.view(request)}, err == nil, err
}

// showSignIn asks for the e-mail address.
func (p *pages) showSignIn(w http.ResponseWriter, r *http.Request) error {
	_, s, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	return p.askAddress(w, r, s, "sign-in")
}

// signIn takes the e-mail address.
func (p *pages) signIn(w http.ResponseWriter, r *http.Request) error {
	_, s, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	return p.takeAddress(w, r, s, "sign-in")
}

// newCode sends another code to the same address.
func (p *pages) newCode(w http.ResponseWriter, r *http.Request) error {
	_, s, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	return p.sendAnother(w, r, s)
}

// showCode asks for the code, or says that another is needed.
func (p *pages) showCode(w http.ResponseWriter, r *http.Request) error {
	_, s, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	return p.askCode(w, r, s, http.StatusOK, "")
}

// enterCode signs the user in with the code of the letter.
func (p *pages) enterCode(w http.ResponseWriter, r *http.Request) error {
	request, s, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	form, err := readForm(w, r, "code")
	if err != nil {
		return err
	}
	user, err := p.Accounts.VerifyCode(r.Context(), request.id, form["code"])
	if problem := codeProblem(err); problem != "" {
		return p.askCode(w, r, s, http.StatusUnprocessableEntity, problem)
	}
	if err != nil {
		return err
	}
	// Somebody may just have signed in: the same form, sent twice. The consent page knows.
	if err := p.OAuth.SignedIn(r.Context(), request.id, request.browser, user); err != nil && !errors.Is(err, oauth.ErrRequestEnded) {
		return err
	}
	seeOther(w, request.base+"/consent")
	return nil
}

// askAddress shows the form for the address; after "use another address" it offers the one that was typed.
func (p *pages) askAddress(w http.ResponseWriter, r *http.Request, s signing, page string) error {
	typed, err := p.Accounts.GetSignIn(r.Context(), s.id)
	if err != nil && !errors.Is(err, account.ErrNoSignIn) {
		return err
	}
	s.view.Email = typed.Email
	p.form(w, http.StatusOK, page, s.view)
	return nil
}

// takeAddress sends a code to the address, or seems to: with and without an account everything is the same.
func (p *pages) takeAddress(w http.ResponseWriter, r *http.Request, s signing, page string) error {
	form, err := readForm(w, r, "email")
	if err != nil {
		return err
	}
	err = p.sendCode(r, s, form["email"])
	if errors.Is(err, account.ErrInvalidEmail) {
		s.view.Email, s.view.Problem = form["email"], "address"
		p.form(w, http.StatusUnprocessableEntity, page, s.view)
		return nil
	}
	if err != nil {
		return err
	}
	seeOther(w, s.view.Base+"/code")
	return nil
}

// sendAnother sends another code to the same address.
func (p *pages) sendAnother(w http.ResponseWriter, r *http.Request, s signing) error {
	if _, err := readForm(w, r); err != nil {
		return err
	}
	typed, err := p.Accounts.GetSignIn(r.Context(), s.id)
	if errors.Is(err, account.ErrNoSignIn) {
		seeOther(w, s.view.Base+"/sign-in")
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.sendCode(r, s, typed.Email); err != nil {
		return err
	}
	seeOther(w, s.view.Base+"/code?again")
	return nil
}

func (p *pages) sendCode(r *http.Request, s signing, email string) error {
	return p.Accounts.SendCode(r.Context(), account.CodeRequest{
		SignIn: s.id, Email: email, Network: p.network(r), Company: s.view.Company.Name,
	})
}

// codeProblem is what was wrong with a code, as the page of it knows it; empty where it was right or something failed.
func codeProblem(err error) string {
	var wrong *account.WrongCodeError
	switch {
	case errors.Is(err, account.ErrMalformedCode):
		return "malformed"
	case errors.As(err, &wrong), errors.Is(err, account.ErrCodeSpent), errors.Is(err, account.ErrCodeExpired), errors.Is(err, account.ErrNoSignIn):
		return "wrong"
	}
	return ""
}

// askCode shows where the sign-in stands. A code that can no longer be used is the problem, whatever else was.
func (p *pages) askCode(w http.ResponseWriter, r *http.Request, s signing, status int, problem string) error {
	stands, err := p.Accounts.GetSignIn(r.Context(), s.id)
	if errors.Is(err, account.ErrNoSignIn) {
		seeOther(w, s.view.Base+"/sign-in")
		return nil
	}
	if err != nil {
		return err
	}
	v := s.view
	v.Email, v.TriesLeft, v.Problem = stands.Email, stands.TriesLeft, problem
	v.SentAgain = problem == "" && r.URL.RawQuery == "again"
	switch {
	case stands.Expired:
		v.Problem = "expired"
	case stands.TriesLeft == 0:
		v.Problem = "spent"
	}
	p.form(w, status, "code", v)
	return nil
}

// form shows a page of the sign-in. Where a company asks, the user can go back to it from there, too.
func (p *pages) form(w http.ResponseWriter, status int, name string, v view) {
	if v.Company.Name != "" {
		letGo(w)
	}
	p.site.write(w, status, name, v)
}
