package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/go-chi/chi/v5"
)

//go:embed templates static
var files embed.FS

// site is the embedded files: a template for each page, and the styles and images under names that contain a hash of
// their content, so that browsers may cache them for ever.
type site struct {
	views  map[string]*template.Template
	assets map[string]asset  // by served name
	names  map[string]string // from file name to served name
}

type asset struct {
	mediaType string
	content   []byte
}

func readSite() (*site, error) {
	s := &site{views: map[string]*template.Template{}, assets: map[string]asset{}, names: map[string]string{}}
	if err := s.readAssets(); err != nil {
		return nil, err
	}
	return s, s.readViews()
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
		sum := sha256.Sum256(content)
		extension := path.Ext(entry.Name())
		name := strings.TrimSuffix(entry.Name(), extension) + "." + hex.EncodeToString(sum[:8]) + extension
		s.names[entry.Name()] = name
		s.assets[name] = asset{mime.TypeByExtension(extension), content}
	}
	return nil
}

// readViews parses each page together with the shared layout and parts.
func (s *site) readViews() error {
	shared, err := template.New("").Funcs(template.FuncMap{
		"asset":   s.assetPath,
		"initial": initial,
		"host":    hostOf,
		"inWords": inWords,
	}).ParseFS(files, "templates/shared/*.html")
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return err
	}
	for _, name := range names {
		page, err := shared.Clone()
		if err != nil {
			return err
		}
		if page, err = page.ParseFS(files, name); err != nil {
			return err
		}
		s.views[strings.TrimSuffix(path.Base(name), ".html")] = page
	}
	return nil
}

func (s *site) assetPath(name string) (string, error) {
	served, ok := s.names[name]
	if !ok {
		return "", fmt.Errorf("no file static/%s", name)
	}
	return "/static/" + served, nil
}

// write sends a page once it has been rendered completely.
func (s *site) write(w http.ResponseWriter, status int, name string, v view) {
	var page bytes.Buffer
	if err := s.views[name].ExecuteTemplate(&page, "layout", v); err != nil {
		panic(fmt.Errorf("template %s: %w", name, err))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only if the browser has gone
}

func (p *pages) static(w http.ResponseWriter, r *http.Request) error {
	file, ok := p.site.assets[chi.URLParam(r, "name")]
	if !ok {
		return errNotFound
	}
	w.Header().Set("Content-Type", file.mediaType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(file.content)
	return nil
}
