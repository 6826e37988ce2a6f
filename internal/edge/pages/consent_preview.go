package pages

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
)

// ConsentPreview is the consent page for operators, as users of a partner see it. It asks no domain, and browsers
// send none of its forms.
type ConsentPreview struct {
	*site.Site
	now func() time.Time
}

// NewConsentPreview makes it. static is the path of the files that it needs, with a slash at its end. An error means that the
// embedded files are inconsistent.
func NewConsentPreview(static string, of brand.Brand, texts *locale.Catalogue, now func() time.Time) (*ConsentPreview, error) {
	files, err := readSite(of, texts, static)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	return &ConsentPreview{files, now}, nil
}

// Show sends the page in a language, under a bar in the operator's own. logo is the address of the partner's logo, or empty. back is the
// address that the bar links to.
func (p *ConsentPreview) Show(w http.ResponseWriter, r *http.Request, of client.Client, tag, logo, back string) {
	const email = "robin@example.com"
	asked := r.Clone(r.Context())
	asked.Header.Set("Accept-Language", tag)
	w.Header().Set("Content-Security-Policy", strings.Replace(site.Policy, "form-action 'self'", "form-action 'none'", 1))
	p.Write(w, asked, http.StatusOK, "consent", view{
		Base: back,
		Partner: partner{Partner: oauth.Partner{
			ClientID: of.ID, Name: of.Name, HomepageURL: of.HomepageURL, PrivacyURL: of.PrivacyURL, TermsURL: of.TermsURL,
		}, Callback: of.CallbackURL, logo: logo},
		Email:   email,
		Consent: oauth.Consent{Scopes: of.Scopes, Email: email, HistoryFrom: p.now().UTC().Truncate(24 * time.Hour)},
		Preview: back, Operator: p.Texts.Console().Negotiate(r.Header.Get("Accept-Language")),
	})
}
