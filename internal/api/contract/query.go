package contract

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
)

// Clean says whether PostgreSQL and JSON can hold the text: it has no NUL and is valid UTF-8.
func Clean(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// ParsePairs reads a query string or a form. Each name may occur once, and all of it must be well-formed: the error is a reason in
// fixed words.
func ParsePairs(encoded string) (url.Values, error) {
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, errors.New("names and values cannot be decoded")
	}
	for name, list := range values {
		if len(list) != 1 {
			return nil, errors.New("a name is repeated")
		}
		if !Clean(name) || !Clean(list[0]) {
			return nil, errors.New("there is a NUL, or text that is not UTF-8")
		}
	}
	return values, nil
}

// readWritten reads how the numbers of the query are written, which is what the document means by their patterns.
func (op *Operation) readWritten() (err error) {
	for name, described := range op.Query {
		if !described.Type.Is(openapi3.TypeInteger) {
			continue
		}
		if op.written[name], err = regexp.Compile(described.Pattern); err != nil {
			return err
		}
	}
	return nil
}

// Accepts says whether the document accepts the text as the value of a parameter of the query, which it has.
func (op *Operation) Accepts(name, text string) bool {
	described, written := op.Query[name], op.written[name]
	if written == nil {
		return described.VisitJSON(text) == nil
	}
	number, err := strconv.ParseFloat(text, 64)
	return err == nil && written.MatchString(text) && described.VisitJSON(number) == nil
}

// checkQuery holds the query string against the document.
func (op *Operation) checkQuery(r *http.Request) error {
	if len(op.Query) == 0 {
		if HasQuery(r) {
			return ErrMalformed
		}
		return nil
	}
	values, err := ParsePairs(r.URL.RawQuery)
	if err != nil {
		return ErrMalformed
	}
	for name, list := range values {
		if op.Query[name] == nil || !op.Accepts(name, list[0]) {
			return ErrMalformed
		}
	}
	return nil
}
