package console

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/edge/site"
)

// ConsentPage shows the consent page of a partner. Nothing on it works.
type ConsentPage interface {
	// Show sends the page in a language. logo is the address of the partner's logo, empty if it has none. back is the
	// address of the console's page.
	Show(w http.ResponseWriter, r *http.Request, of client.Client, tag, logo, back string)
	// ServeFile sends a file of the page, by the name in the path. Error: site.ErrNotFound.
	ServeFile(w http.ResponseWriter, r *http.Request) error
}

// PreviewFiles is the path of the files of [ConsentPage].
const PreviewFiles = Path + "/consent-page/"

// previewChoice links to the consent page in each language.
type previewChoice struct {
	aboutPartner
	Languages []choice // their own names
}

func (c *console) choosePreview(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	x := previewChoice{aboutPartner: aboutPartner{partner, "consent"}}
	for _, tag := range c.Texts.Tags() {
		x.Languages = append(x.Languages, choice{tag, display.Self.Name(language.Make(tag))})
	}
	return c.write(w, r, "consent", x)
}

func (c *console) showPreview(w http.ResponseWriter, r *http.Request, partner client.Client) error {
	tag := chi.URLParam(r, "language")
	if !slices.Contains(c.Texts.Tags(), tag) {
		return site.ErrNotFound
	}
	logo := ""
	if partner.Logo.Name != "" {
		logo = c.partnerPath(partner.ID) + "/logo/" + partner.Logo.Name
	}
	c.Consent.Show(w, r, partner, tag, logo, c.partnerPath(partner.ID)+"/consent")
	return nil
}
