package app

import (
	"net/http"
	"net/url"
	"strings"
)

// lists are the fields that the service reads, and that have lists: several lines are one list (RFC 9110, section 5.3). The standard
// library's readers of these fields look at the first line alone.
var lists = []string{"Accept", "Accept-Encoding", "Accept-Language", "If-Match", "If-None-Match"}

// alike gives requests that mean the same one form, so that all get the same answer: libraries and proxies may write a path with or
// without escapes (RFC 9110, section 4.2.3), and a list on one line or several.
func alike(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, usual(r))
	})
}

// asGet answers HEAD as GET: with the same status and headers (RFC 9110, section 9.3.2). net/http remembers the method, and keeps the content
// back.
func asGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		get := *r
		get.Method = http.MethodGet
		head := &headWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(head, &get)
		if head.written {
			return
		}
		if head.status != http.StatusNoContent && head.status != http.StatusNotModified && w.Header().Get("Content-Length") == "" {
			w.Header().Set("Content-Length", "0")
		}
		w.WriteHeader(head.status)
	})
}

// headWriter adds the length of a response without content, which net/http leaves out of the response to HEAD.
type headWriter struct {
	http.ResponseWriter
	status  int
	written bool
}

// WriteHeader implements [http.ResponseWriter]. The header is sent with the content, or at the end.
func (w *headWriter) WriteHeader(status int) { w.status = status }

// Write implements [http.ResponseWriter].
func (w *headWriter) Write(content []byte) (int, error) {
	if !w.written {
		w.written = true
		w.ResponseWriter.WriteHeader(w.status)
	}
	return w.ResponseWriter.Write(content)
}

// Unwrap is for [http.ResponseController].
func (w *headWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// usual returns the request in the form that most callers send.
func usual(r *http.Request) *http.Request {
	path := usualPath(r.URL)
	var header http.Header
	for _, name := range lists {
		if lines := r.Header[name]; len(lines) > 1 {
			if header == nil {
				header = r.Header.Clone()
			}
			header[name] = []string{strings.Join(lines, ", ")}
		}
	}
	if path == r.URL && header == nil {
		return r
	}
	same := *r
	same.URL = path
	if header != nil {
		same.Header = header
	}
	return &same
}

// usualPath returns the URL with a path in which nothing is escaped that need not be: only characters that are not reserved mean the same
// when they are escaped (RFC 3986, section 6.2.2.2). An empty path of an absolute URL is that of the root (RFC 9110, section 4.2.3).
func usualPath(u *url.URL) *url.URL {
	if u.RawPath == "" && (u.Path != "" || u.Host == "") {
		return u
	}
	same := *u
	if u.Path == "" {
		same.Path = "/"
		return &same
	}
	var path strings.Builder
	for rest := u.RawPath; rest != ""; {
		before, escaped, ok := strings.Cut(rest, "%")
		path.WriteString(before)
		if !ok {
			break
		}
		char, _ := url.PathUnescape("%" + escaped[:2]) // net/http refuses invalid escapes
		// A character that is not reserved means the same with and without an escape (RFC 3986, section 2.3).
		if c := char[0]; 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			path.WriteString(char)
		} else {
			path.WriteString("%" + strings.ToUpper(escaped[:2]))
		}
		rest = escaped[2:]
	}
	same.RawPath = path.String() // net/url ignores it where it is what Path is escaped to
	if plain := (&url.URL{Path: u.Path}).EscapedPath(); plain == same.RawPath {
		same.RawPath = ""
	}
	return &same
}
