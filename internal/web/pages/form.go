package pages

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxForm is the size of a form's body in bytes.
const maxForm = 8 * 1024

// readForm reads the submitted fields. Each must be known, occur once, and be text that PostgreSQL accepts. Missing fields
// are empty.
func readForm(w http.ResponseWriter, r *http.Request, known ...string) (map[string]string, error) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/x-www-form-urlencoded" {
		return nil, errBadForm
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return nil, errBadForm
	}
	return parseForm(string(body), known)
}

func parseForm(body string, known []string) (map[string]string, error) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return nil, errBadForm
	}
	form := make(map[string]string, len(known))
	for name, list := range values {
		if !slices.Contains(known, name) || len(list) != 1 || !utf8.ValidString(list[0]) || strings.ContainsRune(list[0], 0) {
			return nil, errBadForm
		}
		form[name] = strings.TrimSpace(list[0])
	}
	return form, nil
}
