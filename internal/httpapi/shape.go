package httpapi

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of specification section 8.
const (
	maxReadURL   = 4096 // characters of a read's whole URL
	maxBody      = 8192 // bytes of a form
	maxFieldSize = 2048 // characters of a form's field
)

// clean says whether text can go on to where NUL and broken UTF-8 are no text (PostgreSQL, JSON).
func clean(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// hasBody says whether the request announces a body, be it of unknown length.
func hasBody(r *http.Request) bool { return r.ContentLength != 0 }

// hasQuery says whether the request has a query string, be it an empty one.
func hasQuery(r *http.Request) bool { return r.URL.RawQuery != "" || r.URL.ForceQuery }

// parsePairs reads a query string or a form, strictly: each name once, all of it well-formed.
func parsePairs(encoded string) (url.Values, error) {
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, errMalformed
	}
	for name, list := range values {
		if len(list) != 1 || !clean(name) || !clean(list[0]) {
			return nil, errMalformed
		}
	}
	return values, nil
}

// checkRead is the shape of a read (decisions, section 2): its URL, its parameters except for the dates, no body.
func (op *operation) checkRead(r *http.Request, baseURL string) error {
	if len(baseURL)+len(r.URL.RequestURI()) > maxReadURL || hasBody(r) {
		return errMalformed
	}
	values, err := parsePairs(r.URL.RawQuery)
	if err != nil {
		return err
	}
	for name, list := range values {
		described, known := op.query[name]
		if !known || !described.date && !described.accepts(list[0]) {
			return errMalformed
		}
	}
	return nil
}

// readForm reads a form whose every field the document knows. Fields without a value are left out: they count as
// missing (RFC 6749, section 3.2).
func (op *operation) readForm(r *http.Request) (map[string]any, error) {
	if !isForm(r.Header.Values("Content-Type")) {
		return nil, errMalformed
	}
	// One byte more tells a body that is too long. It is no http.MaxBytesReader, which would close the connection while
	// the caller still sends, and so keep the answer from it.
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return nil, errMalformed
	}
	values, err := parsePairs(string(body))
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for name, list := range values {
		if op.form.Properties[name] == nil {
			return nil, errMalformed
		}
		if list[0] != "" {
			fields[name] = list[0]
		}
	}
	return fields, nil
}

// isForm says whether the one content type is that of a form, alone or with charset=utf-8 (specification 4).
func isForm(contentTypes []string) bool {
	if len(contentTypes) != 1 {
		return false
	}
	mediaType, parameters, err := mime.ParseMediaType(contentTypes[0])
	if err != nil || mediaType != formType {
		return false
	}
	charset, given := parameters["charset"]
	return len(parameters) == 0 || len(parameters) == 1 && given && strings.EqualFold(charset, "utf-8")
}

// unsupported are the errors of the fields that choose among what the document lists: what it does not list is not
// malformed, but unsupported (specification 7.3).
var unsupported = map[string]error{
	"grant_type":      errUnsupportedGrantType,
	"token_type_hint": errUnsupportedTokenType,
}

// checkFields holds the fields of a form against the document. Where they do not fit, a choice that it does not list is
// told only when each of the others is right for itself.
func (op *operation) checkFields(fields map[string]any) error {
	for _, value := range fields {
		if utf8.RuneCountInString(value.(string)) > maxFieldSize {
			return errMalformed
		}
	}
	if op.form.whole.Validate(fields) == nil {
		return nil
	}
	refusal := errMalformed
	for name, schema := range op.form.Properties {
		value, given := fields[name]
		switch {
		case !given && slices.Contains(op.form.Required, name):
			return errMalformed
		case !given || schema.Value.VisitJSON(value) == nil:
		case unsupported[name] == nil:
			return errMalformed
		default:
			refusal = unsupported[name]
		}
	}
	return refusal
}
