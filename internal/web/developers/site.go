package developers

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"os"
	"path"
	"path/filepath"
	"strings"

	"connect-svc/api"
	"connect-svc/gen/openapi30"
	"connect-svc/gen/redoc"
	"connect-svc/internal/brand"
)

//go:embed pages templates static
var files embed.FS

// page is one entry of the navigation.
type page struct {
	Name    string // of its file, without .html
	Label   string // in the navigation
	Summary string // a sentence, for search engines and the overview
}

// File is where the page lies, beside all others.
func (p page) File() string { return p.Name + ".html" }

// group is a part of the navigation.
type group struct {
	Label string
	Pages []page
}

const referenceName = "reference"

// contents is the site from top to bottom. Each page but the reference is pages/NAME.md.
var contents = []group{
	{"Start", []page{
		{"index", "Overview", "Read a user's walking and cycling activity, with the user's consent: what there is, and where to begin."},
		{"quick-start", "Quick start", "From nothing to a user's steps in ten minutes, with curl, Go or TypeScript."},
	}},
	{"Guides", []page{
		{"consent", "Consent", "Send the user to the service, take them back, and exchange the code."},
		{"token-storage", "Token storage", "What to keep, how to keep it, and who may see it."},
		{"refresh", "Refresh", "Keep a connection alive without ever sending a refresh token twice."},
		{"paging", "Reading and paging", "Date ranges, the three datasets, and pages of cycling activities."},
		{"limits", "Limits", "The rate policy, the limits of sizes and times, and how to stay within them."},
		{"webhooks", "Webhooks", "Hear of changes: verify, answer at once, work later."},
		{"errors", "Errors", "Which answers there are, and which of them to send again."},
		{"disconnects", "Disconnects", "How connections end, from either side, and what to do then."},
		{"libraries", "Libraries", "Which OAuth 2.0 libraries work, and the lines that each needs."},
		{"going-live", "Going live", "The checklist before the first real user."},
	}},
	{"Reference", []page{
		{referenceName, "API reference", "Every operation, field, limit and error of the partner API."},
	}},
}

// Site is the finished pages and files.
type Site struct {
	brand   brand.Brand
	baseURL string
	module  string           // of the Go SDK
	files   map[string]*file // by their path below [Path]
	missing *file            // the page for what is not there
}

// Config is whose site it is.
type Config struct {
	Brand     brand.Brand // without a name: the program's own
	BaseURL   string      // of the service
	SDKModule string      // path of the Go SDK's module; empty: [DefaultModule]
}

// New makes the site from what is embedded, for an operator. An error says that the parts do not fit together.
func New(config Config) (*Site, error) {
	s := &Site{brand: config.Brand, baseURL: config.BaseURL, module: config.SDKModule, files: map[string]*file{}}
	s.brand.Name = cmp.Or(s.brand.Name, brand.DefaultName)
	if s.module == "" {
		s.module = DefaultModule(s.baseURL)
	}
	names, err := s.addAssets()
	if err != nil {
		return nil, fmt.Errorf("developers: %w", err)
	}
	if err := s.addPages(names); err != nil {
		return nil, fmt.Errorf("developers: %w", err)
	}
	if err := s.addSDKs(); err != nil {
		return nil, fmt.Errorf("developers: %w", err)
	}
	for name, document := range map[string][]byte{
		"openapi.yaml": api.Partner, "openapi-3.0.yaml": openapi30.Partner, "sandbox.yaml": api.Sandbox,
	} {
		if document, err = withContact(document, s.brand.SupportURL); err != nil {
			return nil, fmt.Errorf("developers: %s: %w", name, err)
		}
		s.files[name] = newFile("application/yaml", document)
	}
	return s, nil
}

// withContact puts where the operator gives help into a document's info; without such an address it stays as it is.
func withContact(document []byte, support string) ([]byte, error) {
	if support == "" {
		return document, nil
	}
	field, address := "url", support
	if recipient, isMail := strings.CutPrefix(support, "mailto:"); isMail {
		field, address = "email", recipient
	}
	quoted, err := json.Marshal(address)
	if err != nil {
		return nil, err
	}
	const license = "\n  license:\n" // the contact comes before it
	if !bytes.Contains(document, []byte(license)) {
		return nil, errors.New("info has no license")
	}
	contact := fmt.Sprintf("\n  contact:\n    %s: %s%s", field, quoted, license)
	return bytes.Replace(document, []byte(license), []byte(contact), 1), nil
}

// addAssets adds what pages need under names that change with the content, so that browsers may keep it forever. The licenses
// keep their name, which the head of the program gives. It returns the names by those of the files.
func (s *Site) addAssets() (names map[string]string, err error) {
	names = map[string]string{}
	add := func(base string, content []byte) {
		extension := path.Ext(base)
		f := newFile(mime.TypeByExtension(extension), content)
		name := "static/" + base
		if extension != ".txt" {
			f.forever = true
			name = strings.TrimSuffix(name, extension) + "." + f.Tag[:16] + extension
		}
		names[base] = name
		s.files[name] = f
	}
	add("redoc.standalone.js", redoc.Script)
	add("redoc.standalone.js.LICENSE.txt", redoc.Licenses)
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		content, err := fs.ReadFile(files, "static/"+entry.Name())
		if err != nil {
			return nil, err
		}
		add(entry.Name(), content)
	}
	for _, own := range s.brand.Files() {
		f := newFile(own.MediaType, own.Content)
		f.forever = true
		names[own.Name] = "static/" + own.Name
		s.files["static/"+own.Name] = f
	}
	return names, nil
}

// view is what the layout shows.
type view struct {
	Brand    brand.Brand
	Root     string // before each link; empty where the page lies in the root of the site
	Page     page
	Title    string
	Contents []group
	Body     template.HTML // of a Markdown page
	Sections []section     // of it
	Before   *page         // the neighbours, in the order of reading
	After    *page
}

func (s *Site) addPages(names map[string]string) error {
	layouts, err := template.New("").Funcs(template.FuncMap{"asset": func(name string) (string, error) {
		if names[name] == "" {
			return "", fmt.Errorf("no file static/%s", name)
		}
		return names[name], nil
	}}).ParseFS(files, "templates/*.html")
	if err != nil {
		return err
	}
	render := func(layout string, v view) (*file, error) {
		v.Contents, v.Brand = contents, s.brand
		var text bytes.Buffer
		if err := layouts.ExecuteTemplate(&text, layout, v); err != nil {
			return nil, err
		}
		return newFile("text/html; charset=utf-8", text.Bytes()), nil
	}
	var all []page
	for _, g := range contents {
		all = append(all, g.Pages...)
	}
	for i, p := range all {
		v := view{Page: p, Title: p.Label}
		layout := "page.html"
		if p.Name == referenceName {
			layout = "reference.html"
		} else if err := v.read(p, s.own); err != nil {
			return fmt.Errorf("pages/%s.md: %w", p.Name, err)
		}
		if i > 0 {
			v.Before = &all[i-1]
		}
		if i+1 < len(all) {
			v.After = &all[i+1]
		}
		if s.files[p.File()], err = render(layout, v); err != nil {
			return err
		}
	}
	s.files[referenceName+".html"].policy = referencePolicy
	s.files[""] = s.files["index.html"]
	s.missing, err = render("missing.html", view{Root: Path, Title: "Not found"})
	return err
}

// read takes title, body and sections of a Markdown page, which own makes the service's.
func (v *view) read(p page, own func([]byte) []byte) error {
	source, err := fs.ReadFile(files, "pages/"+p.Name+".md")
	if err != nil {
		return err
	}
	v.Title, v.Body, v.Sections, err = convert(own(source))
	return err
}

// Write puts the site into a folder, which is made if it is missing. Nothing in it is removed.
func (s *Site) Write(dir string) error {
	for name, f := range s.files {
		if name == "" {
			continue // is index.html
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, f.Content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
