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
