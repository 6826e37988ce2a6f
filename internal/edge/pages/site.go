package pages

import (
	"embed"
	"html/template"
	"net/http"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
)

//go:embed templates static
var files embed.FS

// staticPath is where the files of the pages are served.
const staticPath = "/static/"

func readSite(of brand.Brand, texts *locale.Catalogue, static string) (*site.Site, error) {
	return site.New(site.Config{Files: files, Static: static, Brand: of, Texts: texts, Funcs: func(in *locale.Locale) template.FuncMap {
		return template.FuncMap{
			"initial":     brand.Initial,
			"host":        hostOf,
			"span":        in.Span,
			"moment":      in.Moment,
			"sofar":       func(today activity.Today) string { return soFar(in, today) },
			"accountLink": func(preview string) template.HTML { return accountLink(in, preview != "") },
		}
	}})
}

// accountLink leads to the account pages from within a text. On the listener of a preview there are none: there it is a link that
// cannot be followed, and takes no keys.
func accountLink(in *locale.Locale, preview bool) template.HTML {
	if preview {
		return `<a class="inline" role="link" aria-disabled="true">` + in.HTML("account.name") + `</a>`
	}
	return `<a class="inline" href="/account" target="_blank">` + in.HTML("account.name") + `<span class="only-read"> ` +
		in.HTML("page.new_tab") + `</span></a>`
}

// logo serves that of a partner.
func (p *pages) logo(w http.ResponseWriter, r *http.Request) error {
	id, err := site.PathID(r, "client")
	if err != nil {
		return site.ErrNotFound
	}
	logo, err := p.Clients.Logo(r.Context(), id, chi.URLParam(r, "logo"))
	if err != nil {
		return err
	}
	site.Unchanging(w, logo.MediaType())
	w.Header().Set("Content-Type", logo.MediaType())
	_, _ = w.Write(logo.Content) // fails only where nobody reads it any more
	return nil
}
