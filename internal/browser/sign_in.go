package browser

import (
	"errors"
	"net/http"

	"connect-svc/internal/account"
	"connect-svc/internal/oauth"
)

// unsigned is the pending request if nobody has signed in for it; otherwise it sends the browser on to the consent, so
// that going back or sending a form again leads to where the user is.
func (p *pages) unsigned(w http.ResponseWriter, r *http.Request) (request pending, ok bool, err error) {
	request, err = p.pending(r)
	if err == nil && request.SignedIn {
		seeOther(w, request.base+"/consent")
		return request, false, nil
	}
	return request, err == nil, err
}

// showSignIn asks for the e-mail address; after "use another address" it offers the one that was typed.
func (p *pages) showSignIn(w http.ResponseWriter, r *http.Request) error {
	request, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	typed, err := p.Accounts.GetSignIn(r.Context(), request.id)
	if err != nil && !errors.Is(err, account.ErrNoSignIn) {
		return err
	}
	v := p.view(request)
	v.Email = typed.Email
	p.form(w, http.StatusOK, "sign-in", v)
	return nil
}

// signIn sends a code to the address, or seems to: with and without an account everything is the same.
func (p *pages) signIn(w http.ResponseWriter, r *http.Request) error {
	request, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	form, err := readForm(w, r, "email")
	if err != nil {
		return err
	}
	err = p.sendCode(r, request, form["email"])
	if errors.Is(err, account.ErrInvalidEmail) {
		v := p.view(request)
		v.Email, v.Problem = form["email"], "address"
		p.form(w, http.StatusUnprocessableEntity, "sign-in", v)
		return nil
	}
	if err != nil {
		return err
	}
	seeOther(w, request.base+"/code")
	return nil
}

// newCode sends another code to the same address.
func (p *pages) newCode(w http.ResponseWriter, r *http.Request) error {
	request, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	if _, err := readForm(w, r); err != nil {
		return err
	}
	typed, err := p.Accounts.GetSignIn(r.Context(), request.id)
	if errors.Is(err, account.ErrNoSignIn) {
		seeOther(w, request.base+"/sign-in")
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.sendCode(r, request, typed.Email); err != nil {
		return err
	}
	seeOther(w, request.base+"/code?again")
	return nil
}

func (p *pages) sendCode(r *http.Request, request pending, email string) error {
	return p.Accounts.SendCode(r.Context(), account.CodeRequest{
		SignIn: request.id, Email: email, Network: p.network(r), Company: request.ClientName,
	})
}

// showCode asks for the code, or says that another is needed.
func (p *pages) showCode(w http.ResponseWriter, r *http.Request) error {
	request, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	return p.askCode(w, r, request, http.StatusOK, "")
}

// enterCode signs the user in with the code of the letter.
func (p *pages) enterCode(w http.ResponseWriter, r *http.Request) error {
	request, ok, err := p.unsigned(w, r)
	if !ok {
		return err
	}
	form, err := readForm(w, r, "code")
	if err != nil {
		return err
	}
	user, err := p.Accounts.VerifyCode(r.Context(), request.id, form["code"])
	var wrong *account.WrongCodeError
	switch {
	case errors.Is(err, account.ErrMalformedCode):
		return p.askCode(w, r, request, http.StatusUnprocessableEntity, "malformed")
	case errors.As(err, &wrong), errors.Is(err, account.ErrCodeSpent), errors.Is(err, account.ErrCodeExpired), errors.Is(err, account.ErrNoSignIn):
		return p.askCode(w, r, request, http.StatusUnprocessableEntity, "wrong")
	case err != nil:
		return err
	}
	// Somebody may just have signed in: the same form, sent twice. The consent page knows.
	if err := p.OAuth.SignedIn(r.Context(), request.id, request.browser, user); err != nil && !errors.Is(err, oauth.ErrRequestEnded) {
		return err
	}
	seeOther(w, request.base+"/consent")
	return nil
}

// askCode shows where the sign-in stands. A code that can no longer be used is the problem, whatever else was.
func (p *pages) askCode(w http.ResponseWriter, r *http.Request, request pending, status int, problem string) error {
	stands, err := p.Accounts.GetSignIn(r.Context(), request.id)
	if errors.Is(err, account.ErrNoSignIn) {
		seeOther(w, request.base+"/sign-in")
		return nil
	}
	if err != nil {
		return err
	}
	v := p.view(request)
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

// form shows a page of the sign-in, from where the user can go back to the company, too.
func (p *pages) form(w http.ResponseWriter, status int, name string, v view) {
	letGo(w)
	p.site.write(w, status, name, v)
}
