package browser

import (
	"errors"
	"net/http"

	"connect-svc/internal/oauth"
)

// showConsent asks the user who signed in.
func (p *pages) showConsent(w http.ResponseWriter, r *http.Request) error {
	request, err := p.pending(r)
	if err != nil {
		return err
	}
	if !request.SignedIn {
		seeOther(w, request.base+"/sign-in")
		return nil
	}
	return p.askConsent(w, r, request, http.StatusOK)
}

func (p *pages) askConsent(w http.ResponseWriter, r *http.Request, request pending, status int) error {
	consent, err := p.OAuth.Consent(r.Context(), request.id, request.browser)
	if err != nil {
		return err
	}
	v := p.view(request)
	v.Consent, v.Reads = consent, consent.Scopes.Names()
	letGo(w)
	p.site.write(w, status, "consent", v)
	return nil
}

// decide ends the request as the user wants, and sends the browser back to the client (specification 3.1). Nobody
// needs to sign in to say no.
func (p *pages) decide(w http.ResponseWriter, r *http.Request) error {
	request, err := p.pending(r)
	if err != nil {
		return err
	}
	form, err := readForm(w, r, "decision")
	if err != nil {
		return err
	}
	var callback string
	switch form["decision"] {
	case "deny":
		callback, err = p.OAuth.Deny(r.Context(), request.id, request.browser)
	case "allow":
		callback, err = p.OAuth.Allow(r.Context(), request.id, request.browser)
	default:
		return errBadForm
	}
	if errors.Is(err, oauth.ErrRequestEnded) && request.SignedIn {
		// What was refused may be this answer only: the connection has other scopes, perhaps since a moment ago. The
		// page says so; where the request is over, so does asking again.
		return p.askConsent(w, r, request, http.StatusConflict)
	}
	if err != nil {
		return err
	}
	seeOther(w, callback)
	return nil
}
