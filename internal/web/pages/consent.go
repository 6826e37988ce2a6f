package pages

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"connect-svc/internal/oauth"
	"connect-svc/internal/web/site"
)

// showConsent asks the signed-in user for the decision.
func (p *pages) showConsent(w http.ResponseWriter, r *http.Request, request pending) error {
	if !request.SignedIn {
		return site.Redirect(request.base + "/sign-in")
	}
	return p.askConsent(w, r, request, http.StatusOK)
}

func (p *pages) askConsent(w http.ResponseWriter, r *http.Request, request pending, status int) error {
	consent, err := p.OAuth.Consent(r.Context(), request.asked.ID, request.session.Hash())
	if err != nil {
		return err
	}
	v := p.view(request)
	v.Consent = consent
	// Browsers apply form-action to every redirect that follows a form. The callback's origin alone would not be enough: many callbacks
	// redirect to another host of the partner, where Chromium would stop silently.
	w.Header().Set("Content-Security-Policy", site.Policy+" https:")
	p.site.Write(w, r, status, "consent", v)
	return nil
}

// decide ends the request with the user's decision and redirects to the callback (specification 3.1). To deny, the user
// need not be signed in.
func (p *pages) decide(w http.ResponseWriter, r *http.Request, request pending) error {
	form, err := site.ReadForm(w, r, "decision")
	if err != nil {
		return err
	}
	decision := form["decision"]
	if !slices.Contains([]string{"allow", "deny", "disconnect"}, decision) {
		return site.ErrBadForm
	}
	if decision != "deny" && !request.SignedIn {
		return site.Redirect(request.base + "/sign-in")
	}
	var callback string
	id, session := request.asked.ID, request.session.Hash()
	switch {
	case !request.SignedIn:
		callback, err = p.OAuth.DenySealed(r.Context(), request.asked, request.browser)
	case decision == "deny":
		callback, err = p.OAuth.Deny(r.Context(), id, session)
	case decision == "allow":
		callback, err = p.OAuth.Allow(r.Context(), id, session)
	case decision == "disconnect": // offered where the scopes differ
		if err = p.OAuth.DisconnectMismatch(r.Context(), id, session); err == nil {
			callback, err = p.OAuth.Deny(r.Context(), id, session)
		}
	}
	if errors.Is(err, oauth.ErrRequestEnded) && request.SignedIn {
		// Perhaps the request goes on and only Allow was refused, because the connection has other scopes by now. The
		// consent page says so; if the request has ended, it says that.
		return p.askConsent(w, r, request, http.StatusConflict)
	}
	if err != nil {
		return err
	}
	return p.end(w, request, callback)
}

// end redirects to the callback. It leaves nothing of the decided request in the browser but that it was decided.
func (p *pages) end(w http.ResponseWriter, request pending, callback string) error {
	setCookieAt(w, request.base, askedCookie, encoded(append([]byte(decided), request.Partner.ClientID[:]...)), p.RequestLifetime)
	setCookieAt(w, request.base, requestSessionCookie, "", -time.Second)
	return site.Redirect(callback)
}

// cancel ends a request before the sign-in, and redirects to the callback. It is reached by a link: the pages on which an address
// or a code is entered let no form lead away from here, not by a redirect either. Nothing is stored of such a request.
func (p *pages) cancel(w http.ResponseWriter, r *http.Request, request pending) error {
	if request.SignedIn {
		return site.Redirect(request.base + "/consent")
	}
	callback, err := p.OAuth.DenySealed(r.Context(), request.asked, request.browser)
	if err != nil {
		return err
	}
	return p.end(w, request, callback)
}

// restart lets somebody else sign in to the request.
func (p *pages) restart(w http.ResponseWriter, r *http.Request, request pending) error {
	if request.SignedIn {
		if err := p.OAuth.SignOut(r.Context(), request.asked.ID, request.session.Hash()); err != nil {
			return err
		}
	}
	setCookieAt(w, request.base, requestSessionCookie, "", -time.Second)
	return site.Redirect(request.base + "/sign-in")
}
