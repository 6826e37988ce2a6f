package developers

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"connect-svc/api"
	"connect-svc/internal/foundation/brand"
)

// pageNames are the names of all pages.
func pageNames() (names []string) {
	for _, g := range contents {
		for _, p := range g.Pages {
			names = append(names, p.Name)
		}
	}
	return names
}

// markdownPages are the names of the pages that somebody wrote.
func markdownPages() []string {
	return slices.DeleteFunc(pageNames(), func(name string) bool {
		_, err := fs.Stat(files, "pages/"+name+".md")
		return err != nil
	})
}

// nobodys is the site as it stands in the sources. Nothing changes a site once it is made.
var nobodys = sync.OnceValues(func() (*Site, error) { return New(Config{BaseURL: nobodysURL}) })

func newSite(t *testing.T) *Site {
	t.Helper()
	site, err := nobodys()
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// link is what a page points to.
type link struct{ page, to string }

func parse(t *testing.T, f *file) *goquery.Document {
	t.Helper()
	document, err := goquery.NewDocumentFromReader(bytes.NewReader(f.Content))
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// linksOf are all links, styles, scripts and pictures of all pages.
func linksOf(t *testing.T, site *Site) (links []link) {
	t.Helper()
	for name, f := range site.files {
		if path.Ext(name) != ".html" {
			continue
		}
		document := parse(t, f)
		document.Find("[href], [src]").Each(func(_ int, element *goquery.Selection) {
			for _, attribute := range []string{"href", "src", "data-places"} {
				if to, has := element.Attr(attribute); has {
					links = append(links, link{name, to})
				}
			}
		})
	}
	return links
}

// Every link leads to something, in the site as it is served and as it is written: to a file of it, relative, and to an
// anchor that is there, once.
func TestLinks(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	dir := t.TempDir()
	if err := site.Write(dir); err != nil {
		t.Fatal(err)
	}
	anchors := map[string]map[string]int{}
	for name, f := range site.files {
		if path.Ext(name) == ".html" {
			anchors[name] = map[string]int{}
			parse(t, f).Find("[id]").Each(func(_ int, element *goquery.Selection) { anchors[name][element.AttrOr("id", "")]++ })
		}
	}
	seen := map[string]bool{}
	for _, link := range linksOf(t, site) {
		to, err := url.Parse(link.to)
		if err != nil {
			t.Fatal(err)
		}
		if to.IsAbs() {
			if to.String() != "https://www.standardwebhooks.com" && to.String() != "https://github.com/oapi-codegen/oapi-codegen" {
				t.Errorf("%s leads to %s", link.page, to)
			}
			continue
		}
		name := path.Join(path.Dir(link.page), to.Path)
		if to.Path == "" {
			name = link.page
		}
		seen[name] = true
		f, found := site.files[name]
		if !found || strings.HasPrefix(to.Path, "/") || to.Host != "" {
			t.Errorf("%s leads to %s", link.page, link.to)
			continue
		}
		written, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(written, f.Content) {
			t.Errorf("%s, written: %v", name, err)
		}
		if to.Fragment != "" && anchors[name][to.Fragment] != 1 {
			t.Errorf("%s leads to %s, where that anchor is %d times", link.page, link.to, anchors[name][to.Fragment])
		}
	}
	for name := range site.files {
		if name != "" && !seen[name] && !strings.HasPrefix(name, "go/") && !strings.HasPrefix(name, "python/simple/") {
			t.Errorf("nothing leads to %s", name)
		}
	}
}

// A page is told from the others by its title, which names the site once.
func TestTitles(t *testing.T) {
	t.Parallel()
	titles := map[string]string{}
	for name, f := range newSite(t).files {
		if path.Ext(name) != ".html" {
			continue
		}
		document := parse(t, f)
		title := document.Find("title").Text()
		if strings.Count(title, "Activity Connect for developers") != 1 || titles[title] != "" {
			t.Errorf("%s and %q have the title %q", name, titles[title], title)
		}
		titles[title] = name
	}
}

// The page for unknown addresses has links that work from any depth.
func TestMissing(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	for _, request := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/developers/no/such/page.html", nil),
		httptest.NewRequest(http.MethodGet, "/developers/consent", nil),
		httptest.NewRequest(http.MethodGet, "/developers//consent.html", nil),
		httptest.NewRequest(http.MethodGet, "/developers/pages/consent.md", nil),
		httptest.NewRequest(http.MethodPost, "/developers/consent.html", nil),
		httptest.NewRequest(http.MethodPost, "/developers", nil),
		httptest.NewRequest(http.MethodOptions, "/developers/", nil),
	} {
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, request)
		if answer.Code != http.StatusNotFound || answer.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: %d, %v", request.Method, request.URL, answer.Code, answer.Header())
		}
		document, err := goquery.NewDocumentFromReader(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		document.Find("[href]").Each(func(_ int, element *goquery.Selection) {
			to := element.AttrOr("href", "")
			name, below := strings.CutPrefix(to, Path)
			if _, found := site.files[name]; (!below || !found) && to != "#content" {
				t.Errorf("%s leads to %s", request.URL, to)
			}
		})
	}
}

func TestServing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newSite(t))
	t.Cleanup(server.Close)
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ask := func(method, target string, header ...string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	body := func(answer *http.Response) string {
		t.Helper()
		var text bytes.Buffer
		if _, err := text.ReadFrom(answer.Body); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}

	if answer := ask("GET", "/developers"); answer.StatusCode != http.StatusPermanentRedirect || answer.Header.Get("Location") != Path {
		t.Errorf("without the slash: %d to %q", answer.StatusCode, answer.Header.Get("Location"))
	}
	contract, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	contract = bytes.ReplaceAll(contract, []byte("https://connect.example"), []byte(nobodysURL))
	plain := ask("GET", "/developers/openapi.yaml")
	if got := body(plain); got != string(contract) || plain.Header.Get("Content-Type") != "application/yaml" {
		t.Errorf("the contract is %q of %d bytes, want %d", plain.Header.Get("Content-Type"), len(got), len(contract))
	}
	zipped := ask("GET", "/developers/openapi.yaml", "Accept-Encoding", "br, gzip")
	if got := body(zipped); zipped.Header.Get("Content-Encoding") != "gzip" || len(got) > len(contract)/2 {
		t.Errorf("zipped: %q, %d bytes", zipped.Header.Get("Content-Encoding"), len(got))
	}
	for _, refused := range []string{"", "br", "gzip;q=0", "gzip; q=0.000, *"} {
		if answer := ask("GET", Path, "Accept-Encoding", refused); answer.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q gets %q", refused, answer.Header.Get("Content-Encoding"))
		}
	}
	tags := []string{plain.Header.Get("ETag"), zipped.Header.Get("ETag")}
	if tags[0] == tags[1] || tags[0] == "" {
		t.Errorf("the tags are %q", tags)
	}
	if answer := ask("GET", "/developers/openapi.yaml", "If-None-Match", tags[0]); answer.StatusCode != http.StatusNotModified {
		t.Errorf("asked again: %d", answer.StatusCode)
	}
	if answer := ask("HEAD", Path); answer.StatusCode != http.StatusOK || body(answer) != "" {
		t.Errorf("HEAD: %d", answer.StatusCode)
	}
}

// Every answer has the headers of the service's other pages, and one policy.
func TestHeaders(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	for _, name := range append(slices.Sorted(maps.Keys(site.files)), "no-such-page") {
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, Path+name, nil))
		h := answer.Header()
		for header, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
				"sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox; " +
				"base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "cross-origin", "Access-Control-Allow-Origin": "*",
			"Strict-Transport-Security": "max-age=63072000",
		} {
			if got := h.Get(header); got != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
		hashed := strings.HasPrefix(name, "static/") || path.Ext(name) == ".tgz" || path.Ext(name) == ".whl" || path.Ext(name) == ".zip" && name != "connect-svc.bruno.zip"
		if got := h.Get("Cache-Control"); strings.Contains(got, "immutable") != hashed || got == "" {
			t.Errorf("%s: Cache-Control is %q", name, got)
		}
	}
}

// While servers are replaced one after the other, or read another brand, a page of one server loads its files from another one, which has them
// under other names. Browsers ask again the next time.
func TestFilesOfAnotherServer(t *testing.T) {
	t.Parallel()
	color, err := brand.ParseColor("#5b21b6")
	if err != nil {
		t.Fatal(err)
	}
	site, err := New(Config{BaseURL: nobodysURL, Brand: brand.Brand{Color: color}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, Path+name, nil))
		return answer
	}
	hash := regexp.MustCompile(`[0-9a-f]{16}`)
	for name, f := range site.files {
		if !strings.HasPrefix(name, "static/") {
			continue
		}
		answer := ask(hash.ReplaceAllString(name, "0123456789abcdef"))
		if answer.Code != http.StatusOK || answer.Body.String() != string(f.Content) || answer.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("a page of another server has no %s: %d, %q", name, answer.Code, answer.Header())
		}
	}
	for _, name := range []string{"developers.0123456789abcdef.css", "static/developers.css", "static/none.0123456789abcdef.css", "static/logo-0123456789abcdef.svg"} {
		if answer := ask(name); answer.Code != http.StatusNotFound {
			t.Errorf("%s: %d", name, answer.Code)
		}
	}
}

// Programs find each page in llms.txt, as Markdown where it is made of that, and the contract in JSON.
func TestPagesForPrograms(t *testing.T) {
	t.Parallel()
	site, err := New(Config{BaseURL: "https://connect.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	list := string(site.files["llms.txt"].Content)
	for _, g := range contents {
		for _, p := range g.Pages {
			file := p.Name + ".md"
			if p.Name == referenceName || p.Name == driverName || p.Name == indexName {
				file = p.File()
			}
			if line := "- [" + p.Label + "](https://connect.example.com/developers/" + file + "): " + p.Summary + "\n"; !strings.Contains(list, line) {
				t.Errorf("llms.txt has no line %q", line)
			}
			if f := site.files[file]; f == nil || strings.Contains(string(f.Content), "connect.invalid") {
				t.Errorf("%s is missing, or has another address", file)
			}
		}
	}
	inYAML, err := openapi3.NewLoader().LoadFromData(site.files["openapi.yaml"].Content)
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := openapi3.NewLoader().LoadFromData(site.files["openapi.json"].Content)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := inYAML.MarshalJSON()
	got, _ := inJSON.MarshalJSON()
	if !json.Valid(site.files["openapi.json"].Content) || !bytes.Equal(want, got) {
		t.Error("openapi.json is another document than openapi.yaml")
	}
}

// The contract that partners get has nothing that only our generators read: that is in overlays (api/*.overlay.yaml).
func TestContractIsForPartners(t *testing.T) {
	t.Parallel()
	if found := regexp.MustCompile(`(?m)^ *(x-|not: \{ \$ref).*`).FindAll(api.Partner, -1); found != nil {
		t.Errorf("the contract has %q", found)
	}
}

// A client that is generated from a served document calls the service that served it.
func TestDocumentsNameTheService(t *testing.T) {
	t.Parallel()
	const service = "https://[::1]:8443"
	site, err := New(Config{BaseURL: service, Brand: brand.Brand{SupportURL: "mailto:help@acme.example"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"openapi.yaml", "openapi.json", "openapi-3.0.yaml"} {
		document, err := openapi3.NewLoader().LoadFromData(site.files[name].Content)
		if err != nil {
			t.Fatal(err)
		}
		flow := document.Components.SecuritySchemes["accessToken"].Value.Flows.AuthorizationCode
		got := []string{document.Servers[0].Variables["base_url"].Default, flow.AuthorizationURL, flow.TokenURL, flow.RefreshURL}
		if diff := cmp.Diff([]string{service, service + "/oauth/authorize", service + "/oauth/token", service + "/oauth/token"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if bytes.Contains(site.files[name].Content, []byte("connect.example")) {
			t.Errorf("%s names another service, too", name)
		}
	}
}

// TestContact: each document says where the operator gives help.
func TestContact(t *testing.T) {
	t.Parallel()
	const operator = "The operator of the service"
	for support, want := range map[string]*openapi3.Contact{
		"":                          {Name: operator},
		"https://acme.example/#a:b": {Name: operator, URL: "https://acme.example/#a:b"},
		"mailto:help@acme.example":  {Name: operator, Email: "help@acme.example"},
	} {
		site, err := New(Config{BaseURL: nobodysURL, Brand: brand.Brand{SupportURL: support}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"openapi.yaml", "openapi-3.0.yaml", "sandbox.yaml"} {
			document, err := openapi3.NewLoader().LoadFromData(site.files[name].Content)
			if err != nil {
				t.Fatal(err)
			}
			if err := document.Validate(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := document.Info.Contact; !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %s has the contact %v", support, name, got)
			}
		}
	}
}

// TestBrand: the site is the operator's, on every page.
func TestBrand(t *testing.T) {
	t.Parallel()
	logo, err := brand.ReadLogo([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`))
	if err != nil {
		t.Fatal(err)
	}
	color, err := brand.ParseColor("#5b21b6")
	if err != nil {
		t.Fatal(err)
	}
	site, err := New(Config{BaseURL: nobodysURL, Brand: brand.Brand{Name: "Acme & <Move>", Logo: logo, Color: color, SupportURL: "mailto:help@acme.example", PrivacyURL: "https://acme.example/privacy"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range site.files {
		if path.Ext(name) != ".html" {
			continue
		}
		page := parse(t, f)
		if got := page.Find(".home").Text(); got != "Acme & <Move>" || !strings.HasSuffix(page.Find("title").Text(), "Acme & <Move> for developers") {
			t.Errorf("%s is headed %q, and titled %q", name, got, page.Find("title").Text())
		}
		for _, own := range []string{page.Find(".home img").AttrOr("src", ""), page.Find("link[rel=icon]").AttrOr("href", ""), page.Find("link[rel=stylesheet]").Last().AttrOr("href", "")} {
			if site.files[own] == nil || !site.files[own].forever {
				t.Errorf("%s: %q is not there", name, own)
			}
		}
		if bytes.Contains(f.Content, []byte(brand.DefaultName)) {
			t.Errorf("%s still has the program's own name", name)
		}
	}
}

// The lines that trust the certificate of a sandbox come before the first command that needs them.
func TestTrustComesFirst(t *testing.T) {
	t.Parallel()
	site, err := New(Config{BaseURL: "https://127.0.0.1:8443", AuthorityFile: "/tmp/it's here/ca.pem"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "```bash\nexport NODE_EXTRA_CA_CERTS='/tmp/it'\\''s here/ca.pem' # npm: this service has a certificate authority of its own\n" +
		"cafile=$(npm config get cafile)\nif [ -e \"$cafile\" ]; then both=$(cat \"$cafile\" '/tmp/it'\\''s here/ca.pem'); echo \"$both\" >authorities.pem; " +
		"export npm_config_cafile=$PWD/authorities.pem; fi # else UNABLE_TO_VERIFY_LEAF_SIGNATURE\n" +
		"export SSL_CERT_FILE='/tmp/it'\\''s here/ca.pem' # Go, on Linux\nexport REQUESTS_CA_BUNDLE=$PWD/python.pem; " +
		"cat $(ls /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem /etc/pki/tls/certs/ca-bundle.crt 2>/dev/null | head -1) " +
		"'/tmp/it'\\''s here/ca.pem' >python.pem # pip\nnpm install https://127.0.0.1:8443/"
	if text := string(site.files["quick-start.md"].Content); strings.Index(text, "```") != strings.Index(text, want) {
		t.Errorf("the quick start begins with\n%.600s", text)
	}
	if text := string(newSite(t).files["quick-start.md"].Content); strings.Contains(text, "export SSL_CERT_FILE") || strings.Contains(text, "REQUESTS_CA_BUNDLE") {
		t.Error("everybody is told to trust an authority")
	}
}
