package developers

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"connect-svc/internal/edge/site/static"
	"connect-svc/internal/foundation/telemetry"
	"golang.org/x/net/html"
)

// Path is the path of the site, which answers all paths below it, with a page or with its own 404.
const Path = "/developers/"

// policy is the content security policy of every response. A page has one script, and connects to nothing. The sandbox gives it an
// origin of its own, so that a foreign script in it could not read the pages on the same host where users sign in. Windows that a
// link opens are not in the sandbox.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox; " +
	"base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

// file is a file of the site.
type file struct {
	*static.File
	forever bool // its name changes with its content
}

// hashInName is that of the content.
var hashInName = regexp.MustCompile(`[.-][0-9a-f]{16}`)

func newFile(mediaType string, content []byte) *file {
	return &file{File: static.New(mediaType, content)}
}

// ServeHTTP serves GET and HEAD of the site's files. Other requests get a page with status 404, as on the rest of the public
// listener (specification 4). Mount it behind telemetry.Requests for the paths below [Path] and the requests of
// [Site.AsksForModule].
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	event := telemetry.EventOf(r.Context())
	event.Operation = Path
	headers(w.Header())
	if !s.pace.enter(event.Network) {
		event.Code = "busy"
		w.Header().Set("Retry-After", "1")
		refuse(w, "Others are reading. Please try again.", http.StatusServiceUnavailable)
		return
	}
	defer s.pace.leave(event.Network)
	w = paced{w, s.pace, of(r)}
	if s.AsksForModule(r) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		content := html.EscapeString(s.config.SDKModule + " mod " + s.config.BaseURL + Path + "go")
		_, _ = fmt.Fprintf(w, "<!doctype html>\n<meta name=\"go-import\" content=\"%s\">\n", content) // fails only if the client has gone
		return
	}
	name, below := strings.CutPrefix(r.URL.Path, Path)
	f, ok := s.files[name]
	asset := strings.TrimPrefix(name, "static/")
	// A page from a server of another version, or with another brand, asks for another hash, and is better off with what there is here.
	if own, known := s.assets[hashInName.ReplaceAllLiteralString(asset, "")]; known && !ok && asset != name && hashInName.MatchString(asset) {
		f, ok = &file{File: s.files[own].File}, true
	}
	readable := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !below && readable:
		http.Redirect(w, r, Path, http.StatusPermanentRedirect)
	case !ok || !readable:
		w.Header().Set("Content-Type", s.missing.MediaType)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(s.missing.Content) // fails only if the browser has gone
	case f.forever:
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		f.ServeHTTP(w, r)
	default:
		w.Header().Set("Cache-Control", "no-cache") // browsers revalidate each time, and get a 304
		f.ServeHTTP(w, r)
	}
}

// headers sets the headers of every response, as on the service's other pages, with two differences: every origin may load the
// files, and there is no Cross-Origin-Opener-Policy, which sandboxed pages cannot have.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Strict-Transport-Security", "max-age=63072000")
}

// place is a page, a heading or a field, which readers can link to and search for.
type place struct {
	Page   page
	ID     string // empty for the page itself
	Label  string
	Within string // the heading above a field
	Text   string // up to the next place
	Field  bool
	Top    bool // a heading of the second level
}

// placesOf finds the places of a page. It skips folded parts, which repeat the others.
func placesOf(p page, body template.HTML) ([]place, error) {
	document, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	places, heading := []place{{Page: p, Label: p.Label}}, ""
	var visit func(*html.Node)
	visit = func(node *html.Node) {
		id, class := attribute(node, "id"), attribute(node, "class")
		switch name := node.Data; {
		case node.Type == html.TextNode:
			places[len(places)-1].Text += node.Data
		case name == "details" || class == "anchor" || class == "language" || name == "h1":
			return
		case id == "":
		case name == "h2" || name == "h3":
			heading = textOf(node)
			places = append(places, place{Page: p, ID: id, Label: heading, Top: name == "h2"})
			return
		case class == "field":
			places = append(places, place{Page: p, ID: id, Label: id[strings.LastIndexByte(id, '-')+1:], Within: heading, Field: true})
		}
		for child := range node.ChildNodes() {
			visit(child)
		}
	}
	visit(document)
	return places, nil
}

func attribute(element *html.Node, name string) string {
	at := slices.IndexFunc(element.Attr, func(a html.Attribute) bool { return a.Key == name })
	if at < 0 {
		return ""
	}
	return element.Attr[at].Val
}

// textOf returns the text of a heading without its link to itself.
func textOf(heading *html.Node) (text string) {
	for node := range heading.Descendants() {
		if node.Type == html.TextNode && attribute(node.Parent, "class") != "anchor" {
			text += node.Data
		}
	}
	return strings.TrimSpace(text)
}

// alsoFoundBy has words that people search for, by the addresses of the places that answer them in other words.
var alsoFoundBy = map[string]string{
	"paging.html":                          "pagination paginate offset next page",
	"paging.html#pages":                    "pagination paginate offset next page",
	"consent.html":                         "login sign in authorize authorization pkce oidc popup",
	"refresh.html":                         "idempotency idempotent expired renew rotation",
	"refresh.html#four-rules":              "idempotency idempotent parallel lock",
	"webhooks.html#work":                   "idempotency idempotent duplicate deduplicate twice",
	"webhooks.html#verify":                 "rotate secret hmac signature key",
	"token-storage.html#the-client-secret": "rotate secret replace credentials leaked",
	"limits.html":                          "throttle throttling quota backoff",
	"errors.html":                          "why refused reason debug troubleshoot",
	"error-codes.html":                     "why refused reason debug troubleshoot",
	"going-live.html#watching":             "support contact monitoring logging request id help",
	"index.html#what-you-need":             "support contact register sign up api key credentials",
	"index.html#pick-your-tools":           "postman bruno insomnia swagger openapi generator collection sdk download",
	"quick-start.html":                     "tutorial getting started example",
	"sandbox.html":                         "docker container test environment mock staging simulator",
	"ci.html":                              "continuous integration pipeline github gitlab jenkins",
	"ci.html#as-a-service-container":       "docker compose kubernetes github gitlab",
	"going-live.html#your-own-pages":       "why refused reason support portal dashboard rotate secret",
	"going-live.html#growing":              "versioning deprecation compatibility",
	"disconnects.html":                     "unlink delete account gdpr revoke",
}

// searchIndex returns a script that passes the places to site.js. Unlike JSON, a script also loads from a disk.
func searchIndex(places []place) ([]byte, error) {
	// Label, where it is, address, text without the label with which a field's text begins, and other words for it.
	type entry [5]string
	entries := make([]entry, len(places))
	others := maps.Clone(alsoFoundBy)
	for i, p := range places {
		at := slices.IndexFunc(contents, func(g group) bool { return slices.Contains(g.Pages, p.Page) })
		where, address := contents[at].Label, p.Page.File()
		if p.ID != "" {
			where, address = p.Page.Label, address+"#"+p.ID
		}
		if p.Within != "" {
			where += " › " + p.Within
		}
		entries[i] = entry{p.Label, where, address, strings.TrimPrefix(strings.Join(strings.Fields(p.Text), " "), p.Label+" "), others[address]}
		delete(others, address)
	}
	if len(others) > 0 {
		return nil, fmt.Errorf("search: no place for %v", others)
	}
	list, err := json.Marshal(entries)
	return slices.Concat([]byte("self.places = "), list, []byte(";\n")), err
}
