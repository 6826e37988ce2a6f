package developers

import (
	"bytes"
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"connect-svc/api"
	"connect-svc/internal/edge/developers/reference"
	"connect-svc/internal/foundation/brand"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
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
			if source, err = s.source(p); err == nil {
				v.Title, v.Body, v.Sections, err = convert(source)
			}
			v.Markdown = p.Name + ".md"
			s.files[v.Markdown] = newFile("text/markdown; charset=utf-8", source)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		headings, err := placesOf(p, v.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if p.Name != indexName { // it would list everything twice
			places = append(places, headings...)
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
cafile=$(npm config get cafile)
if [ -e "$cafile" ]; then both=$(cat "$cafile" '%[1]s'); echo "$both" >authorities.pem; export npm_config_cafile=$PWD/authorities.pem; fi # else UNABLE_TO_VERIFY_LEAF_SIGNATURE
export SSL_CERT_FILE='%[1]s' # Go, on Linux
export REQUESTS_CA_BUNDLE=$PWD/python.pem; cat $(ls /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem /etc/pki/tls/certs/ca-bundle.crt 2>/dev/null | head -1) '%[1]s' >python.pem # pip
`

// source returns a page in Markdown.
func (s *Site) source(p page) ([]byte, error) {
	document, err := contract()
	if err != nil {
		return nil, err
	}
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
	for _, rule := range rules.FindAllStringSubmatch(document.Description, -1) {
		source = bytes.ReplaceAll(source, []byte("{contract:"+rule[1]+"}"), []byte(strings.ReplaceAll(rule[2]+rule[3], "\n  ", " ")))
	}
	if unknown := include.Find(source); unknown != nil {
		return nil, fmt.Errorf("the contract has no rule for %s", unknown)
	}
	return bytes.ReplaceAll(s.own(source), []byte("{base_url}"), []byte(s.config.BaseURL)), nil
}

// A rule of the contract stands there alone, and pages include it by its name: an item of a list that begins with the name in bold, or the
// table right below the heading.
var (
	rules   = regexp.MustCompile(`(?m)^(?:- \*\*|## )(.+?)(?:\*\*: (.+(?:\n  .+)*)|\n\n(\|.+(?:\n\|.+)*))`)
	include = regexp.MustCompile(`\{contract:([^}]+)\}`)
)

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

// feedName is the file of the feed.
const feedName = "changelog.atom"

// feed of the API changelog, in Atom (RFC 4287).
type feed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Base    string      `xml:"xml:base,attr"` // of the links in the entries
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Author  string      `xml:"author>name"`
	Updated string      `xml:"updated"`
	Links   []feedLink  `xml:"link"`
	Entries []feedEntry `xml:"entry"`
}

type feedLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

type feedEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Link    feedLink `xml:"link"`
	Content struct {
		Type string `xml:"type,attr"`
		HTML string `xml:",chardata"`
	} `xml:"content"`
}

// addFeed adds a feed with an entry for each version of the page's Markdown: its heading, its date and what follows.
func (s *Site) addFeed() error {
	changelog := page{Name: "changelog"}
	source, err := s.source(changelog)
	if err != nil {
		return err
	}
	_, _, sections, err := convert(source)
	if err != nil {
		return err
	}
	site := s.config.BaseURL + Path
	f := feed{Base: site, ID: site + feedName, Title: s.config.Brand.Name + ": API changelog", Author: s.config.Brand.Name,
		Links: []feedLink{{"self", site + feedName}, {"alternate", site + changelog.File()}}}
	versions := strings.Split(string(source), "\n## ")[1:]
	for i, text := range versions {
		parts := strings.SplitN(text, "\n\n", 3)
		if len(parts) < 3 {
			return fmt.Errorf("%s: %q has no text", feedName, parts[0])
		}
		day, err := time.Parse(time.DateOnly, parts[1])
		if err != nil {
			return fmt.Errorf("%s: %w", feedName, err)
		}
		_, body, _, err := convert([]byte("# " + parts[0] + "\n\n" + parts[2]))
		if err != nil {
			return err
		}
		entry := feedEntry{Title: "API " + parts[0], Updated: day.Format(time.RFC3339), Link: feedLink{"alternate", site + changelog.File() + "#" + sections[i].ID}}
		entry.ID, entry.Content.Type = entry.Link.Href, "html"
		_, entry.Content.HTML, _ = strings.Cut(string(body), "</h1>\n")
		f.Entries = append(f.Entries, entry)
	}
	f.Updated = f.Entries[0].Updated // the newest is first
	encoded, err := xml.MarshalIndent(f, "", "  ")
	s.files[feedName] = newFile("application/atom+xml", append([]byte(xml.Header), encoded...))
	return err
}

// contract reads the partner API's document once.
var contract = sync.OnceValues(func() (*reference.Document, error) { return reference.Read(api.Partner, "{base_url}") })

// driver reads the document of the sandbox's driver once.
var driver = sync.OnceValues(func() (*reference.Document, error) { return reference.Read(api.Sandbox, "http://127.0.0.1:9090") })

// sdkSamples has a file of examples with the SDKs for each operation ID.
//
//go:embed samples
var sdkSamples embed.FS

// addSamples returns the contract's examples of an operation, followed by those of the SDKs.
func addSamples(o reference.Operation) ([]reference.Sample, error) {
	source, err := fs.ReadFile(sdkSamples, "samples/"+o.ID+".md")
	if errors.Is(err, fs.ErrNotExist) {
		return o.Samples, nil
	}
	samples := slices.Clone(o.Samples)
	document := markdown.Parser().Parse(text.NewReader(source))
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		if block, ok := node.(*ast.FencedCodeBlock); ok {
			samples = append(samples, reference.Sample{Language: string(block.Language(source)), Text: string(block.Lines().Value(source))})
		}
	}
	return samples, err
}

// outlineOf lists the headings of the reference.
func outlineOf(document *reference.Document) []section {
	var outline []section
	if document.Schemes != nil {
		outline = []section{{ID: "authentication", Label: "Authentication"}}
	}
	for _, g := range document.Groups {
		s := section{ID: g.ID, Label: g.Label}
		for _, o := range g.Operations {
			s.Sections = append(s.Sections, section{ID: o.ID, Label: o.Label})
		}
		outline = append(outline, s)
	}
	return outline
}

// withAnswers adds to each code on the page of error codes the operations that respond with it.
func withAnswers(page []byte, document *reference.Document) []byte {
	for _, code := range document.Codes {
		if len(code.Uses) == 0 {
			continue
		}
		table := "| Status | Text | Answers |\n|---|---|---|\n"
		for _, use := range code.Uses {
			var names []string
			for _, o := range use.Operations {
				names = append(names, fmt.Sprintf("[%s](%s.html#%s-%s)", o.Label, referenceName, o.ID, use.Status))
			}
			table += fmt.Sprintf("| %s | %s | %s |\n", use.Status, use.Text, strings.Join(names, ", "))
		}
		heading := "\n## " + code.Name + "\n"
		page = bytes.Replace(page, []byte(heading), []byte(heading+"\n"+table), 1)
	}
	return page
}
