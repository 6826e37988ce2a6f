package site

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Maximum sizes of a form's body in bytes. In long texts a character may take twelve.
const (
	maxForm     = 8 << 10
	maxLongForm = 64 << 10
)

// ErrBadForm means that a form is malformed or has unknown fields.
var ErrBadForm = errors.New("not a form of ours")

// ReadForm reads the submitted fields and trims their space. Each field must be known, occur once, and be text that PostgreSQL accepts.
// Missing fields are empty. Error: ErrBadForm.
func ReadForm(w http.ResponseWriter, r *http.Request, known ...string) (map[string]string, error) {
	return readForm(w, r, maxForm, known)
}

// ReadLongForm is [ReadForm] for a form with long texts. Error: ErrBadForm.
func ReadLongForm(w http.ResponseWriter, r *http.Request, known ...string) (map[string]string, error) {
	return readForm(w, r, maxLongForm, known)
}

func readForm(w http.ResponseWriter, r *http.Request, limit int64, known []string) (map[string]string, error) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/x-www-form-urlencoded" {
		return nil, ErrBadForm
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, ErrBadForm
	}
	return ParseForm(string(body), known)
}

// ParseForm reads the fields of a form or a query string like [ReadForm].
func ParseForm(text string, known []string) (map[string]string, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, ErrBadForm
	}
	form := make(map[string]string, len(known))
	for name, list := range values {
		if !slices.Contains(known, name) || len(list) != 1 || !utf8.ValidString(list[0]) || strings.ContainsRune(list[0], 0) {
			return nil, ErrBadForm
		}
		form[name] = strings.TrimSpace(list[0])
	}
	return form, nil
}

// OwnForms refuses forms of other sites. A browser says whether a form is of the same origin (Sec-Fetch-Site), and is believed. An older one
// (Safari before 16.4) names the origin of the page alone: it must be one of origins, which may be empty texts, or that of the request's Host.
// A proxy may have sent another Host. An origin has a scheme and a host, and a port unless it is the default one. The error is that of an
// origin that is none.
func OwnForms(refuse http.Handler, origins ...string) (func(http.Handler) http.Handler, error) {
	forms, oldForms := http.NewCrossOriginProtection(), http.NewCrossOriginProtection()
	forms.SetDenyHandler(refuse)
	oldForms.SetDenyHandler(refuse)
	for _, origin := range origins {
		if origin == "" {
			continue
		}
		if err := oldForms.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return func(next http.Handler) http.Handler {
		own, ownOld := forms.Handler(next), oldForms.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Sec-Fetch-Site") == "" {
				ownOld.ServeHTTP(w, r)
				return
			}
			own.ServeHTTP(w, r)
		})
	}, nil
}

// OriginOf returns the origin of an https URL as browsers name it: without the default port (RFC 6454, section 6.1).
func OriginOf(baseURL string) string { return strings.TrimSuffix(baseURL, ":443") }
