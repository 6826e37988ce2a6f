package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/telemetry"
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
	v.Consent, v.User = consent, request.session.UserID.String()
	if p.Activity != nil && !consent.ScopeMismatch {
		ctx, cancel := context.WithTimeout(r.Context(), p.Limits.Read)
		defer cancel()
		reader := activity.Reader{
			UserID: request.session.UserID, ClientID: request.Partner.ClientID, HistoryFrom: consent.HistoryFrom,
			RegisteredOn: consent.RegisteredOn, Now: consent.Today,
		}
		// The partner could read this of the user's day by now. If the database does not tell in time, the page does without.
		if v.Today, err = p.Activity.Today(ctx, reader, consent.Scopes, consent.Today); err != nil {
			telemetry.EventOf(r.Context()).Cause = fmt.Errorf("consent without today's activity: %w", err)
		}
	}
	p.writeDecision(w, r, status, "consent", v)
	return nil
}

// decide ends the request with the user's decision and redirects to the callback (specification 3.1). The same decision again leads there
// again: if a button is pressed twice, the browser shows the last answer and drops the first. To deny, the user need not be signed in.
func (p *pages) decide(w http.ResponseWriter, r *http.Request) error {
	form, err := site.ReadForm(w, r, "decision")
	if err != nil {
		return err
	}
	request, err := p.pending(r)
	if err != nil && !errors.Is(err, oauth.ErrRequestEnded) {
		return err
	}
	var callback string
	outcome := denied
	id, session := request.asked.ID, request.session.Hash()
	switch decision := form["decision"]; {
	case decision != "allow" && decision != "deny" && decision != "disconnect":
		return site.ErrBadForm
	case decision != "deny" && !request.hasSession() && err != nil:
		return err
	case decision != "deny" && !request.hasSession():
		return site.Redirect(request.base + "/sign-in")
	case decision != "deny" && isOfAnother(r, request.session.UserID):
		return site.Redirect(request.base + "/consent")
	case decision == "allow":
		callback, err = p.OAuth.Allow(r.Context(), id, session, account.BrowserName(r.UserAgent()))
		outcome = decided
	case decision == "disconnect":
		callback, err = p.OAuth.DenyAndDisconnect(r.Context(), id, session)
	case request.hasSession():
		callback, err = p.OAuth.Deny(r.Context(), id, session)
	default:
		callback, err = p.OAuth.DenySealed(r.Context(), request.asked, request.browser)
	}
	if errors.Is(err, oauth.ErrRequestEnded) && request.SignedIn {
		// Allow is also refused if the connection has other scopes by now. The consent page says which of the two it is.
		return p.askConsent(w, r, request, http.StatusConflict)
	}
	if err != nil {
		return err
	}
	// The browser notes the decision, and drops the sign-in soon.
	setCookieAt(w, request.base, askedCookie, request.asked.Sealed+"."+outcome, p.RequestLifetime)
	if request.hasSession() {
		setCookieAt(w, request.base, requestSessionCookie, request.sealed, answerLifetime)
	}
	return site.Redirect(callback)
}

// showEnd asks for confirmation before the connection with the partner that asks ends, and with it the request. Without a connection it
// redirects to the consent.
func (p *pages) showEnd(w http.ResponseWriter, r *http.Request, request pending) error {
	if !request.SignedIn {
		return site.Redirect(request.base + "/sign-in")
	}
	consent, err := p.OAuth.Consent(r.Context(), request.asked.ID, request.session.Hash())
	if err != nil {
		return err
	}
	if consent.State == "" {
		return site.Redirect(request.base + "/consent")
	}
	v := p.view(request)
	v.Connections, v.User = []connection{{Connection: oauth.Connection{State: consent.State}, Partner: v.Partner}}, request.session.UserID.String()
	p.writeDecision(w, r, http.StatusOK, "disconnect", v)
	return nil
}

// writeDecision sends a page with a form that redirects to the partner. Browsers apply form-action to every redirect that follows a form.
// The callback's origin alone would not be enough: many callbacks redirect to another host of the partner, where Chromium would stop silently.
func (p *pages) writeDecision(w http.ResponseWriter, r *http.Request, status int, name string, v view) {
	w.Header().Set("Content-Security-Policy", site.Policy+" https:")
	p.site.Write(w, r, status, name, v)
}

// answerLifetime is how long the browser keeps what it needs to repeat a decision: the longest that a code is valid (specification 3.1).
const answerLifetime = 2 * time.Minute

// showCancel leads to where the request can be cancelled. until 1.3.0: pages of 1.0.0 have a link here.
func (p *pages) showCancel(w http.ResponseWriter, r *http.Request, request pending) error {
	return site.Redirect(request.base + "/sign-in")
}

// restart lets another user sign in to the request.
func (p *pages) restart(w http.ResponseWriter, r *http.Request, request pending) error {
	if request.SignedIn {
		// First the code and the link, which may be in the browser's history: otherwise they would sign in again.
		if err := p.Accounts.EndSignIn(r.Context(), request.asked.ID); err != nil {
			return err
		}
		if err := p.OAuth.SignOut(r.Context(), request.asked.ID, request.session.Hash()); err != nil {
			return err
		}
	}
	setCookieAt(w, request.base, requestSessionCookie, "", -time.Second)
	dropCookie(w, typedCookie) // or the form would be filled in with the address of the first user
	setCookieAt(w, request.base, typedCookie, "", -time.Second)
	return site.Redirect(request.base + "/sign-in")
}

// ConsentPreview is the consent page for operators, as users of a partner see it. It asks no domain, and browsers
// send none of its forms.
type ConsentPreview struct {
	*site.Site
	now func() time.Time
}

// NewConsentPreview makes it. static is the path of the files that it needs, with a slash at its end. An error means that the
// embedded files are inconsistent.
func NewConsentPreview(static string, design brand.Brand, texts *locale.Catalogue, now func() time.Time) (*ConsentPreview, error) {
	files, err := readSite(design, texts, static)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	return &ConsentPreview{files, now}, nil
}

// Show sends the page in a language, under a bar in the operator's own. logo is the address of the partner's logo, or empty. back is the
// address that the bar links to.
func (p *ConsentPreview) Show(w http.ResponseWriter, r *http.Request, registered client.Client, tag, logo, back string) {
	const email = "robin@example.com"
	asked := r.Clone(r.Context())
	asked.Header.Set("Accept-Language", tag)
	w.Header().Set("Content-Security-Policy", strings.Replace(site.Policy, "form-action 'self'", "form-action 'none'", 1))
	p.Write(w, asked, http.StatusOK, "consent", view{
		Base: back,
		Partner: partner{Partner: oauth.Partner{
			ClientID: registered.ID, Name: registered.Name, HomepageURL: registered.HomepageURL, PrivacyURL: registered.PrivacyURL, TermsURL: registered.TermsURL,
		}, Callback: registered.CallbackURL, logo: logo},
		Email:   email,
		Consent: oauth.Consent{Scopes: registered.Scopes, Email: email, HistoryFrom: p.now().UTC().Truncate(24 * time.Hour)},
		Preview: back, Operator: p.Texts.Console().Negotiate(r.Header.Get("Accept-Language")),
	})
}
