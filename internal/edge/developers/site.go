// Package developers is the site for partners' engineers, under /developers/ on the public listener: a quick start, guides,
// the reference and the contract to download. Beside it are the programs that run a sandbox (programs.go). `make docs` writes the same files to a folder, for any static host.
//
//	pages/*.md ──goldmark──▶ templates/page.html ────▶ <name>.html   the guides
//	api/openapi.yaml ──reference──▶ templates/reference.html ──▶ reference.html, rules.html, the responses in error-codes.html
//	api/sandbox.yaml ──reference──▶ templates/driver.html ─▶ sandbox-driver.html
//	samples/*.md ─────────────────────────────────────▶ the examples of the SDKs in reference.html
//	all of these ─────────────────────────────────────▶ site-index.html, and places.js to search
//	sdk/released ─────────────────────────────────────▶ sdk/connect-1.2.0.tgz, go/…, python/…   the SDKs for npm, the go command and pip
//	api/openapi.yaml ─────────────────────────────────▶ openapi.yaml   with the service's address and the operator's contact; openapi.json
//	api/workflows.arazzo.yaml ────────────────────────▶ workflows.arazzo.yaml   byte for byte; it refers to openapi.yaml and sandbox.yaml
//	pages/changelog.md ───────────────────────────────▶ changelog.atom
//	gen/collections ──────────────────────────────────▶ connect-svc.postman_collection.json, connect-svc.bruno.zip
//	gen/openapi30 ────────────────────────────────────▶ openapi-3.0.yaml   the same in OpenAPI 3.0.3
//
// # Invariants
//
//   - The pages are the same for everybody. They contain nothing of a request or the database, and of the settings only the brand,
//     the service's address, the path of the Go module and, of a sandbox, the file of its certificate authority. They
//     are made once, at start (TestReferenceIsOfTheService, TestBrand).
//   - Links are relative, so that the site works in any folder. Every link and every anchor has a target (TestLinks).
//   - Pages are complete without scripts, and load nothing from other hosts. One script, static/site.js, copies examples, shows them in
//     one language at a time and searches. It runs in a sandbox with an origin of its own, and can store nothing (TestInChromium,
//     TestScriptIsNobodyToOtherPages).
//   - Headings, operations, fields and error codes can be linked to. Neighboring examples in different languages are one example
//     (TestIndex, TestTogether).
//   - Each error code of the contract is explained in pages/error-codes.md, and each of its versions has a date in
//     pages/changelog.md (TestErrorCodes, TestChangelog).
//   - Tests take every example from the Markdown, and compile or run it. The guides agree with the specification and the contract
//     (TestGoExamples, TestTypeScriptExamples, TestQuickStart).
//   - A file with a version in its name never changes (TestServing).
//   - The site serves only GET and HEAD, and knows nothing of the rest of the service (TestServing). It sends few bytes a second, to few
//     readers at the same time, and each network has a part of both (TestPagesShareTheRate, TestReadersWhoTakeNothing).
//   - Of a folder with programs only those are served that its SHA256SUMS lists (TestReleasedPrograms). Few are sent at the same time and few
//     bytes a second, of which each network has a part (TestDownloadsShareTheRate, TestNetworksShareThePlaces). A slow download gives way
//     (TestSlowDownloadsGiveWay).
package developers

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"connect-svc/api"
	"connect-svc/gen/collections"
	"connect-svc/gen/openapi30"
	"connect-svc/internal/edge/site/static"
	"connect-svc/internal/foundation/brand"
	"github.com/oasdiff/yaml"
	"golang.org/x/tools/txtar"
)

//go:embed pages templates static
var files embed.FS

// page is one entry of the navigation.
type page struct {
	Name    string // of its file, without .html
	Label   string // in the navigation
	Summary string // a sentence, for search engines and the overview
}

// File returns the name of the page's file. All pages are in one folder.
func (p page) File() string { return p.Name + ".html" }

// group is a part of the navigation.
type group struct {
	Label string
	Pages []page
}

// Pages that are not only Markdown.
const (
	referenceName  = "reference"
	rulesName      = "rules" // of the contract's description
	codesName      = "error-codes"
	quickStartName = "quick-start"
	driverName     = "sandbox-driver"
	indexName      = "site-index"
)

// CodesPath is the path of the page about error codes, whose parts have the codes' names.
const CodesPath = Path + codesName + ".html"

// contents lists the pages in order. Each page except the references, the rules and the site's index is pages/NAME.md.
var contents = []group{
	{"Start", []page{
		{"index", "Overview", "Read a user's walking and cycling activity, with the user's consent: what there is, and where to begin."},
		{"quick-start", "Quick start", "From nothing to a user's steps in ten minutes, with curl, Go, TypeScript or Python."},
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
		{"sandbox", "Sandbox", "The whole service on your machine, for your tests: what it can do, and how a test says so."},
		{"ci", "Tests in CI", "A whole integration, tested in one script or with a service container."},
		{"going-live", "Going live", "The checklist before the first real user."},
	}},
	{"Reference", []page{
		{referenceName, "API reference", "Every operation, parameter, field and answer of the partner API, and its webhooks."},
		{rulesName, "Rules", "What the contract says in words: the flow, errors and retries, limits, webhooks, versions."},
		{codesName, "Error codes", "Each error code of the partner API: what it means, and what to do."},
		{driverName, "Sandbox driver", "Every operation, parameter, field and answer with which a test drives a sandbox."},
		{"changelog", "API changelog", "What changed in the partner API, by version and date."},
		{indexName, "Site index", "Every page, heading, operation and field of this site."},
	}},
}

// Site has the finished pages and files.
type Site struct {
	config  Config
	files   map[string]*file  // by their path below [Path]
	assets  map[string]string // paths of the files in static/, by their names
	missing *file             // the page for unknown paths
	pace    *pace
}

// Config of the site.
type Config struct {
	Brand     brand.Brand // without a name: the program's own
	BaseURL   string      // of the service
	SDKModule string      // path of the Go SDK's module; [defaultModule] if empty
	// AuthorityFile has the authority of the service's certificate, on the reader's machine. It is empty if everybody trusts the certificate.
	AuthorityFile string
}

// New makes the site from the embedded files. It fails only if they are inconsistent.
func New(config Config) (*Site, error) {
	config.Brand.Name = cmp.Or(config.Brand.Name, brand.DefaultName)
	config.SDKModule = cmp.Or(config.SDKModule, defaultModule(config.BaseURL))
	s := &Site{config: config, files: map[string]*file{}, assets: map[string]string{}, pace: newPace()}
	for _, add := range []func() error{s.addAssets, s.addPages, s.addList, s.addFeed, s.addSDKs} {
		if err := add(); err != nil {
			return nil, fmt.Errorf("developers: %w", err)
		}
	}
	for name, document := range map[string][]byte{
		"openapi.yaml": api.Partner, "openapi-3.0.yaml": openapi30.Partner, "sandbox.yaml": api.Sandbox,
	} {
		// A client that is generated from it begins with its addresses.
		document := bytes.ReplaceAll(document, []byte("https://connect.example"), []byte(config.BaseURL))
		document, err := withContact(document, config.Brand.SupportURL)
		if err != nil {
			return nil, fmt.Errorf("developers: %s: %w", name, err)
		}
		s.files[name] = newFile("application/yaml", document)
		if name == "openapi.yaml" {
			inJSON, err := yaml.YAMLToJSON(document)
			if err != nil {
				return nil, fmt.Errorf("developers: %s: %w", name, err)
			}
			s.files["openapi.json"] = newFile("application/json", inJSON)
		}
	}
	s.files["workflows.arazzo.yaml"] = newFile("application/yaml", api.Workflows)
	bruno, err := zipOf(txtar.Parse(collections.Bruno), "connect-svc")
	if err != nil {
		return nil, fmt.Errorf("developers: %w", err)
	}
	s.files["connect-svc.bruno.zip"] = &file{File: static.NewPacked("application/zip", bruno)}
	s.files["connect-svc.postman_collection.json"] = newFile("application/json", collections.Postman)
	return s, nil
}

// withContact adds the operator's address for support to the contact in a document's info. Without an address it changes nothing.
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
	const contact = "\n  contact:\n    name: The operator of the service\n"
	if !bytes.Contains(document, []byte(contact)) {
		return nil, errors.New("info has no contact")
	}
	return bytes.Replace(document, []byte(contact), fmt.Appendf(nil, "%s    %s: %s\n", contact, field, quoted), 1), nil
}

// addAssets adds the files of static/ and of the brand.
func (s *Site) addAssets() error {
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := fs.ReadFile(files, "static/"+entry.Name())
		if err != nil {
			return err
		}
		s.addAsset(entry.Name(), content)
	}
	for _, own := range slices.Backward(s.config.Brand.Files()) { // of several logos the first one stands for others
		s.assets[own.Name] = "static/" + own.Name
		s.assets[hashInName.ReplaceAllLiteralString(own.Name, "")] = "static/" + own.Name
		s.files["static/"+own.Name] = &file{static.New(own.MediaType, own.Content), true}
	}
	return nil
}

// addAsset adds a file under a name that changes with its content, so that browsers may cache it forever.
func (s *Site) addAsset(base string, content []byte) {
	extension := path.Ext(base)
	f := &file{static.New(mime.TypeByExtension(extension), content), true}
	s.assets[base] = "static/" + strings.TrimSuffix(base, extension) + "." + f.Tag[:16] + extension
	s.files[s.assets[base]] = f
}

// Write writes the site to a folder, and creates the folder if it is missing. It removes nothing.
func (s *Site) Write(dir string) error {
	for name, f := range s.files {
		if name == "" {
			continue // the same as index.html
		}
		if strings.HasSuffix(name, "/") {
			name += "index.html"
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
