package developers

import (
	"net/http"
	"strings"

	"connect-svc/internal/edge/site/static"
	"connect-svc/internal/foundation/telemetry"
)

// Path is the path of the site.
const Path = "/developers/"

// Serves reports whether the site answers a path, with a page or with its own 404.
func Serves(path string) bool { return strings.HasPrefix(path, Path) || path+"/" == Path }

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

func newFile(mediaType string, content []byte) *file {
	return &file{File: static.New(mediaType, content)}
}

// ServeHTTP serves GET and HEAD of the site's files. Other requests get a page with status 404, as on the rest of the public
// listener (specification 4). Mount it behind telemetry.Requests for the paths of [Serves] and the requests of
// [Site.AsksForModule].
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	telemetry.EventOf(r.Context()).Operation = Path
	headers(w.Header())
	if s.AsksForModule(r) {
		s.serveModule(w)
		return
	}
	name, below := strings.CutPrefix(r.URL.Path, Path)
	f, found := s.files[name]
	readable := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !below && readable:
		http.Redirect(w, r, Path, http.StatusPermanentRedirect)
	case !found || !readable:
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
