package developers

import (
	"net/http"
	"strings"

	"connect-svc/internal/telemetry"
	"connect-svc/internal/web/static"
)

// Path is where the site is served.
const Path = "/developers/"

// Serves says whether a path belongs to the site, even if nothing is there.
func Serves(path string) bool { return strings.HasPrefix(path, Path) || path+"/" == Path }

// The content security policies allow our own styles and pictures. A script of ours draws the reference from the contract. It
// puts its rules into style elements that are empty, which the policy allows by the hash of nothing. It refuses inline styles
// there, too. It is much script from elsewhere, on the host of the pages that users sign in to: in the sandbox it has an origin
// of its own, which is nobody to them.
const (
	common          = "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
	pagePolicy      = "default-src 'none'; style-src 'self'; img-src 'self'; " + common
	referencePolicy = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
		"style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' 'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='; sandbox allow-scripts allow-downloads; " + common
)

// file is a page or what belongs to one.
type file struct {
	*static.File
	policy  string
	forever bool // its name changes with its content
}

func newFile(mediaType string, content []byte) *file {
	return &file{File: static.New(mediaType, content), policy: pagePolicy}
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
		headers(w.Header(), pagePolicy)
		http.Redirect(w, r, Path, http.StatusPermanentRedirect)
	case !found || !readable:
		headers(w.Header(), pagePolicy)
		w.Header().Set("Content-Type", s.missing.MediaType)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(s.missing.Content) // fails only where nobody reads it any more
	default:
		headers(w.Header(), f.policy)
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

// headers sets those of every response, as on the service's other pages. But all is for everybody to take, the reference among
// them, whose origin is another one; and a page in a sandbox cannot ask for a browsing context group of its own.
func headers(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if policy != referencePolicy {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Strict-Transport-Security", "max-age=63072000")
}
