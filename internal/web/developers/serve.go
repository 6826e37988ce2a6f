package developers

import (
	"net/http"
	"strings"

	"connect-svc/internal/telemetry"
	"connect-svc/internal/web/site/static"
)

// Path is where the site is served.
const Path = "/developers/"

// Serves says whether a path belongs to the site, even if nothing is there.
func Serves(path string) bool { return strings.HasPrefix(path, Path) || path+"/" == Path }

// policy is the content security policy of everything here. A page has one script, ours, and asks nobody anything. In the
// sandbox its origin is one of its own, which is nobody to the pages that users sign in to, on the same host: whatever came to
// run here could not read them. A window that a link opens is not in the sandbox.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox; " +
	"base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

// file is a page or what belongs to one.
type file struct {
	*static.File
	forever bool // its name changes with its content
}

func newFile(mediaType string, content []byte) *file {
	return &file{File: static.New(mediaType, content)}
}

// ServeHTTP serves GET and HEAD of the site's files. Everything else gets a page with status 404, as on the rest of the public
// listener (specification 4). Mount it behind telemetry.Requests for the paths of [Serves] and the questions of
// [Site.AsksForModule].
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	telemetry.EventOf(r.Context()).Operation = Path
	if s.AsksForModule(r) {
		s.serveModule(w)
		return
	}
	name, below := strings.CutPrefix(r.URL.Path, Path)
	f, found := s.files[name]
	readable := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !below && readable:
		headers(w.Header())
		http.Redirect(w, r, Path, http.StatusPermanentRedirect)
	case !found || !readable:
		headers(w.Header())
		w.Header().Set("Content-Type", s.missing.MediaType)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(s.missing.Content) // fails only where nobody reads it any more
	default:
		headers(w.Header())
		f.serve(w, r)
	}
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // browsers revalidate each time, and get a 304
	if f.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	f.ServeHTTP(w, r)
}

// headers sets those of every response, as on the service's other pages. But all is for everybody to take, the pages' own
// origins among them; and a page in a sandbox cannot ask for a browsing context group of its own.
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
