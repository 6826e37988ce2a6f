// Package site has what all pages share: their templates in each language, their styles and images, and how forms are read.
//
// # Invariants
//
//   - A page is rendered completely before its first byte is sent (TestPageThatPanics).
//   - Styles and images have names with a hash of their content, so that browsers may cache them forever (pages.TestStatic).
//   - Each field of a form is known, occurs once, is valid UTF-8 and contains no NUL, which PostgreSQL refuses (pages.TestForms).
package site

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"connect-svc/internal/edge/site/static"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
)

// Config of a site. Only Funcs, Brand and Texts may be empty.
type Config struct {
	Files  fs.FS             // static/*, templates/shared/*.html with the template "layout", and templates/*.html, one for each page
	Static string            // the path of the files of static, with a slash at its end
	Brand  brand.Brand       // without a name, the program's own
	Texts  *locale.Catalogue // nil for the built-in ones
	// Funcs returns more functions of the templates. Every site has asset, brand, t, text, day, lang, dir and languages.
	Funcs func(*locale.Locale) template.FuncMap
}

// Site has a template for each page in each language. It is safe for concurrent use.
type Site struct {
	Config
	shared    *template.Template      // the layout and the parts, as parsed
	views     sync.Map                // from page and language to *template.Template
	files     map[string]*static.File // by served name
	names     map[string]string       // from file name to served name
	rendering *work.Queue             // with [places]
}

// New reads the files. It fails only if they are inconsistent.
func New(config Config) (*Site, error) {
	if config.Texts == nil {
		config.Texts = locale.Default()
	}
	config.Brand.Name = cmp.Or(config.Brand.Name, brand.DefaultName)
	s := &Site{Config: config, files: map[string]*static.File{}, names: map[string]string{},
		rendering: work.NewQueue(places(), work.Unbounded)}
	return s, cmp.Or(s.readStatic(), s.readPages())
}

// places returns how many pages are rendered concurrently. They use half of the processors and leave the rest to other requests.
func places() int { return max(1, runtime.GOMAXPROCS(0)/2) }

func (s *Site) readStatic() error {
	entries, err := fs.ReadDir(s.Files, "static")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := fs.ReadFile(s.Files, "static/"+entry.Name())
		if err != nil {
			return err
		}
		extension := path.Ext(entry.Name())
		file := static.New(mime.TypeByExtension(extension), content)
		s.names[entry.Name()] = strings.TrimSuffix(entry.Name(), extension) + "." + file.Tag[:16] + extension
		s.files[s.names[entry.Name()]] = file
	}
	for _, file := range slices.Backward(s.Brand.Files()) { // of several logos the first one stands for others
		s.names[file.Name], s.names[hashInName.ReplaceAllLiteralString(file.Name, "")] = file.Name, file.Name
		s.files[file.Name] = static.New(file.MediaType, file.Content)
	}
	return nil
}

// readPages parses the shared layout and parts, and each page once, to see that it can be. A page is kept in the languages in which it
// is asked for: all pages with a copy each of what they share would be half of an idle server's heap.
func (s *Site) readPages() (err error) {
	if s.shared, err = template.New("").Funcs(s.funcs(s.Texts.Locale("en"))).ParseFS(s.Files, "templates/shared/*.html"); err != nil {
		return err
	}
	_, err = template.New("").Funcs(s.funcs(s.Texts.Locale("en"))).ParseFS(s.Files, "templates/*.html")
	return err
}

// funcs returns the functions of the templates in a language. t returns a text as HTML, with partners' names isolated from the
// direction of the text around them. text returns plain text for titles and attributes.
func (s *Site) funcs(language *locale.Locale) template.FuncMap {
	isolated := func(key string, values ...any) template.HTML {
		for i := 0; i+1 < len(values); i += 2 {
			if name, ok := values[i+1].(string); ok && values[i] == "Partner" {
				values[i+1] = template.HTML("<bdi>" + template.HTMLEscapeString(name) + "</bdi>") //nolint:gosec // escaped
			}
		}
		return language.HTML(key, values...)
	}
	funcs := template.FuncMap{
		"asset": func(name string) (string, error) { // of static or of the brand
			served, ok := s.names[name]
			if !ok {
				return "", fmt.Errorf("no file static/%s", name)
			}
			return s.Static + served, nil
		},
		"brand": func() brand.Brand { return s.Brand },
		"t":     isolated,
		"text":  language.Text,
		"day":   language.Day,
		"lang":  func() string { return language.Tag },
		"dir":   language.Direction,

		"languages": s.Texts.All,
	}
	if s.Funcs != nil {
		maps.Copy(funcs, s.Funcs(language))
	}
	return funcs
}

// Write sends a page, in the language of the request, once it has been rendered completely. Callers are served fairly: hundreds that ask
// for pages at once wait for each other, and nobody else waits for them.
func (s *Site) Write(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	page := s.render(work.CallerOf(r.Context()), name, s.Locale(r), data)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only if the browser has gone
}

func (s *Site) render(caller work.Caller, name string, language *locale.Locale, data any) (page bytes.Buffer) {
	_ = s.rendering.Acquire(work.WithCaller(context.Background(), caller)) // without a deadline, because rendering is quick
	defer s.rendering.Release()
	key := [2]string{name, language.Tag}
	view, made := s.views.Load(key)
	if !made {
		shared := template.Must(s.shared.Clone()).Funcs(s.funcs(language)) // a template that was never executed can be cloned
		view, _ = s.views.LoadOrStore(key, template.Must(shared.ParseFS(s.Files, "templates/"+name+".html")))
	}
	if err := view.(*template.Template).ExecuteTemplate(&page, "layout", data); err != nil {
		panic(fmt.Errorf("template %s: %w", name, err))
	}
	return page
}

// Locale returns the language of a request.
func (s *Site) Locale(r *http.Request) *locale.Locale {
	return s.Texts.Negotiate(r.Header.Get("Accept-Language"))
}

// hashInName is that of the content.
var hashInName = regexp.MustCompile(`[.-][0-9a-f]{16}`)

// ServeFile sends the file of static with the name in the path. A page from a server of another version, or with another brand, asks for another
// hash. It gets what there is here, which nobody caches: otherwise it would have no style. Error: [ErrNotFound].
func (s *Site) ServeFile(w http.ResponseWriter, r *http.Request) error {
	name := chi.URLParam(r, "name")
	file, own := s.files[name]
	if own {
		Unchanging(w, file.MediaType)
	} else if file = s.files[s.names[hashInName.ReplaceAllLiteralString(name, "")]]; file == nil || !hashInName.MatchString(name) {
		return ErrNotFound
	}
	file.ServeHTTP(w, r)
	return nil
}

// Unchanging sets the headers of a file that browsers may cache forever. An SVG that is opened directly is sandboxed.
func Unchanging(w http.ResponseWriter, mediaType string) {
	h := w.Header()
	if mediaType == "image/svg+xml" {
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'")
	}
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
}
