package developers

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"

	"connect-svc/internal/edge/developers/reference"
	"connect-svc/internal/foundation/brand"
)

// view is the data of the layout.
type view struct {
	Brand    brand.Brand
	Root     string // before each link; empty for pages in the root of the site
	Page     page
	Title    string
	Markdown string // the file with the page as Markdown, or empty
	Contents []group
	Outline  []section     // of a reference, shown in the contents while it is open
	Body     template.HTML // without the frame
	Sections []section     // of the body
	Before   *page         // the neighbors in the contents
	After    *page
}

// addPages adds the pages. It renders all bodies first, because the site's index and the search list their headings and fields.
func (s *Site) addPages() error {
	document, err := contract()
	if err != nil {
		return err
	}
	sandbox, err := driver()
	if err != nil {
		return err
	}
	layouts, err := s.layouts(document)
	if err != nil {
		return err
	}
	var all []page
	for _, g := range contents {
		all = append(all, g.Pages...)
	}
	var places []place
	views := make([]view, len(all))
	for i, p := range all {
		v := view{Page: p, Title: p.Label, Contents: contents, Brand: s.config.Brand}
		if i > 0 {
			v.Before = &all[i-1]
		}
		if i+1 < len(all) {
			v.After = &all[i+1]
		}
		switch p.Name {
		case referenceName:
			v.Body, err = execute(layouts, "reference.html", document)
			v.Body = template.HTML(s.ofService(string(v.Body))) //nolint:gosec // an address is an origin
			v.Outline = outlineOf(document)
		case driverName:
			v.Body, err = execute(layouts, "driver.html", sandbox)
			v.Outline = outlineOf(sandbox)
		case indexName:
			v.Body, err = execute(layouts, "site-index.html", places)
		default:
			var source []byte
			if source, err = s.source(p, document); err == nil {
				v.Title, v.Body, v.Sections, err = convert(source)
			}
			v.Markdown = p.Name + ".md"
			s.files[v.Markdown] = newFile("text/markdown; charset=utf-8", source)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		found, err := placesOf(p, v.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if p.Name != indexName { // it would list everything twice
			places = append(places, found...)
		}
		views[i] = v
	}
	index, err := searchIndex(places)
	if err != nil {
		return err
	}
	s.addAsset("places.js", index)
	for _, v := range views {
		text, err := execute(layouts, "page.html", v)
		if err != nil {
			return err
		}
		s.files[v.Page.File()] = newFile("text/html; charset=utf-8", []byte(text))
	}
	s.files[""] = s.files["index.html"]
	text, err := execute(layouts, "missing.html", view{Root: Path, Title: "Not found", Contents: contents, Brand: s.config.Brand})
	s.missing = newFile("text/html; charset=utf-8", []byte(text))
	return err
}

// trust comes before the first command of the quick start, where machines do not trust the service's certificate by themselves.
const trust = "```bash\n" + `export NODE_EXTRA_CA_CERTS='%[1]s' # npm: this service has a certificate authority of its own
export SSL_CERT_FILE='%[1]s' # Go, on Linux
`

// source returns a page in Markdown.
func (s *Site) source(p page, document *reference.Document) ([]byte, error) {
	if p.Name == rulesName {
		return []byte(s.ofService("# " + p.Label + "\n\n" + document.Description)), nil
	}
	source, err := fs.ReadFile(files, "pages/"+p.Name+".md")
	if err != nil {
		return nil, err
	}
	if p.Name == quickStartName && s.config.AuthorityFile != "" {
		source = bytes.Replace(source, []byte("```bash\n"), fmt.Appendf(nil, trust, strings.ReplaceAll(s.config.AuthorityFile, "'", `'\''`)), 1)
	}
	if p.Name == codesName {
		source = withAnswers(source, document)
	}
	return bytes.ReplaceAll(s.own(source), []byte("{base_url}"), []byte(s.config.BaseURL)), nil
}

// addList adds llms.txt (https://llmstxt.org): a list of the pages for programs that read text.
func (s *Site) addList() error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s for developers\n\n> %s\n\nThe contract is [openapi.json](%s%sopenapi.json).\n",
		s.config.Brand.Name, contents[0].Pages[0].Summary, s.config.BaseURL, Path)
	for _, g := range contents {
		fmt.Fprintf(&text, "\n## %s\n\n", g.Label)
		for _, p := range g.Pages {
			file := p.Name + ".md"
			if s.files[file] == nil {
				file = p.File()
			}
			fmt.Fprintf(&text, "- [%s](%s%s%s): %s\n", p.Label, s.config.BaseURL, Path, file, p.Summary)
		}
	}
	s.files["llms.txt"] = newFile("text/plain; charset=utf-8", []byte(text.String()))
	return nil
}

// ofService puts the service's address into a text from the contract.
func (s *Site) ofService(text string) string {
	return strings.NewReplacer("{base_url}", s.config.BaseURL, "https://connect.example", s.config.BaseURL).Replace(text)
}

func (s *Site) layouts(document *reference.Document) (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"asset": func(name string) (string, error) {
			if s.assets[name] == "" {
				return "", fmt.Errorf("no file static/%s", name)
			}
			return s.assets[name], nil
		},
		"markdown": described,
		"listing":  listing,
		"samples":  addSamples,
		"lower":    strings.ToLower,
		"isCode": func(value string) bool {
			return slices.ContainsFunc(document.Codes, func(c reference.Code) bool { return c.Name == value })
		},
	}).ParseFS(files, "templates/*.html")
}

func execute(layouts *template.Template, layout string, data any) (template.HTML, error) {
	var text bytes.Buffer
	err := layouts.ExecuteTemplate(&text, layout, data)
	return template.HTML(text.String()), err //nolint:gosec // the templates escape
}
