package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/account"
	"connect-svc/internal/brand"
	"connect-svc/internal/locale"
	"connect-svc/internal/web/static"
)

//go:embed templates static
var files embed.FS

// site is the embedded files: a template for each page in each language, and the styles and images under names that contain
// a hash of their content, so that browsers may cache them for ever.
type site struct {
	brand  brand.Brand
	texts  *locale.Catalogue
	views  map[string]map[string]*template.Template // by language and page
	assets map[string]*static.File                  // by served name
	names  map[string]string                        // from file name to served name
}

func readSite(of brand.Brand, texts *locale.Catalogue) (*site, error) {
	s := &site{brand: of, texts: texts, views: map[string]map[string]*template.Template{}, assets: map[string]*static.File{}, names: map[string]string{}}
	if err := s.readAssets(); err != nil {
		return nil, err
	}
	for _, tag := range texts.Tags() {
		views, err := s.readViews(texts.Locale(tag))
		if err != nil {
			return nil, err
		}
		s.views[tag] = views
	}
	return s, nil
}

func (s *site) readAssets() error {
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := fs.ReadFile(files, "static/"+entry.Name())
		if err != nil {
			return err
		}
		extension := path.Ext(entry.Name())
		file := static.New(mime.TypeByExtension(extension), content)
		name := strings.TrimSuffix(entry.Name(), extension) + "." + file.Tag[:16] + extension
		s.names[entry.Name()] = name
		s.assets[name] = file
	}
	for _, file := range s.brand.Files() {
		s.names[file.Name] = file.Name
		s.assets[file.Name] = static.New(file.MediaType, file.Content)
	}
	return nil
}

// readViews parses each page together with the shared layout and parts. In the templates t is a text as HTML, where a
// partner's name is kept apart from the direction of what is around it, and text is one for titles and attributes.
func (s *site) readViews(in *locale.Locale) (map[string]*template.Template, error) {
	isolated := func(key string, values ...any) template.HTML {
		for i := 0; i+1 < len(values); i += 2 {
			if name, ok := values[i+1].(string); ok && values[i] == "Partner" {
				values[i+1] = template.HTML("<bdi>" + template.HTMLEscapeString(name) + "</bdi>") //nolint:gosec // escaped
			}
		}
		return in.HTML(key, values...)
	}
	shared, err := template.New("").Funcs(template.FuncMap{
		"asset":       s.assetPath,
		"brand":       func() brand.Brand { return s.brand },
		"initial":     initial,
		"host":        hostOf,
		"t":           isolated,
		"text":        in.Text,
		"day":         in.Day,
		"clock":       account.ClockTime,
		"lang":        func() string { return in.Tag },
		"dir":         in.Direction,
		"accountLink": func() template.HTML { return accountLink(in) },
	}).ParseFS(files, "templates/shared/*.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	views := map[string]*template.Template{}
	for _, name := range names {
		page, err := shared.Clone()
		if err != nil {
			return nil, err
		}
		if page, err = page.ParseFS(files, name); err != nil {
			return nil, err
		}
		views[strings.TrimSuffix(path.Base(name), ".html")] = page
	}
	return views, nil
}

// accountLink leads to the account pages from within a text.
func accountLink(in *locale.Locale) template.HTML {
	return `<a class="inline" href="/account" target="_blank">` + in.HTML("account.name") + `<span class="only-read"> ` +
		in.HTML("page.new_tab") + `</span></a>`
}

func (s *site) assetPath(name string) (string, error) {
	served, ok := s.names[name]
	if !ok {
		return "", fmt.Errorf("no file static/%s", name)
	}
	return "/static/" + served, nil
}

// write sends a page, in the language of the request, once it has been rendered completely.
func (s *site) write(w http.ResponseWriter, r *http.Request, status int, name string, v view) {
	var page bytes.Buffer
	if err := s.views[s.locale(r).Tag][name].ExecuteTemplate(&page, "layout", v); err != nil {
		panic(fmt.Errorf("template %s: %w", name, err))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only if the browser has gone
}

// locale is the language of a request.
func (s *site) locale(r *http.Request) *locale.Locale {
	return s.texts.Negotiate(r.Header.Get("Accept-Language"))
}

func (p *pages) static(w http.ResponseWriter, r *http.Request) error {
	file, ok := p.site.assets[chi.URLParam(r, "name")]
	if !ok {
		return errNotFound
	}
	unchanging(w, file.MediaType)
	file.ServeHTTP(w, r)
	return nil
}

// logo serves that of a partner.
func (p *pages) logo(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "client")
	if err != nil {
		return errNotFound
	}
	logo, err := p.Clients.Logo(r.Context(), id, chi.URLParam(r, "logo"))
	if err != nil {
		return err
	}
	unchanging(w, logo.MediaType())
	w.Header().Set("Content-Type", logo.MediaType())
	_, _ = w.Write(logo.Content) // fails only where nobody reads it any more
	return nil
}

// unchanging sets the headers of a file that browsers may cache for ever. A drawing that is opened by itself is in a sandbox.
func unchanging(w http.ResponseWriter, mediaType string) {
	h := w.Header()
	if mediaType == "image/svg+xml" {
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'")
	}
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
}
