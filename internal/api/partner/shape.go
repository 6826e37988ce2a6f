package partner

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/scope"
)

// The names that the document gives its parts.
const (
	basicScheme  = "clientCredentials"
	bearerScheme = "accessToken"
	formType     = "application/x-www-form-urlencoded"
	grantID      = "grant_id"
)

// operation is what the document says about one operation.
type operation struct {
	*contract.Operation
	basic bool      // needs client authentication
	scope scope.Set // the scope that an access token needs; 0 where none is taken
	// written is how the numbers of the query are written, which is what the document means by their patterns.
	written map[string]*regexp.Regexp
}

// readOperations reads the embedded document.
func readOperations() (map[string]*operation, error) {
	described, err := contract.Read(partnerapi.GetSpecJSON, formType)
	if err != nil {
		return nil, err
	}
	operations := map[string]*operation{}
	for route, read := range described {
		op := &operation{Operation: read, written: map[string]*regexp.Regexp{}}
		_, op.basic = read.Needs[basicScheme]
		for _, name := range read.Needs[bearerScheme] {
			needed, err := scope.Parse(name)
			if err != nil {
				return nil, fmt.Errorf("%s: scope %q: %w", read.ID, name, err)
			}
			op.scope |= needed
		}
		for name, described := range read.Query {
			if !described.Type.Is(openapi3.TypeInteger) {
				continue
			}
			if op.written[name], err = regexp.Compile(described.Pattern); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", read.ID, name, err)
			}
		}
		operations[route] = op
	}
	return operations, nil
}

// Limits of specification section 8.
const (
	maxReadURL   = 4096 // characters of a read's whole URL
	maxBody      = 8192 // bytes of a form
	maxFieldSize = 2048 // characters of a form's field
)

// clean says whether PostgreSQL and JSON can hold the text: it has no NUL and is valid UTF-8.
func clean(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// parsePairs reads a query string or a form. Each name may occur once, and all of it must be well-formed.
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

// checkRead checks the shape of a read (decisions, section 2): its URL, its parameters except for the dates, no body.
func (op *operation) checkRead(r *http.Request, baseURL string) error {
	if len(baseURL)+len(r.URL.RequestURI()) > maxReadURL || contract.HasBody(r) {
		return errMalformed
	}
	values, err := parsePairs(r.URL.RawQuery)
	if err != nil {
		return err
	}
	for name, list := range values {
		described, known := op.Query[name]
		if !known || !op.accepts(name, described, list[0]) {
			return errMalformed
		}
	}
	return nil
}

// accepts says whether the document accepts the text as the value of a parameter. Any date passes: whether it is allowed is
// decided later.
func (op *operation) accepts(name string, described *openapi3.Schema, text string) bool {
	if described.Format == "date" {
		return true
	}
	written := op.written[name]
	if written == nil {
		return described.VisitJSON(text) == nil
	}
	number, err := strconv.ParseFloat(text, 64)
	return err == nil && written.MatchString(text) && described.VisitJSON(number) == nil
}

// readForm reads a form, all of whose fields the document must have. A field without a value counts as missing (RFC 6749,
// section 3.2).
func (op *operation) readForm(r *http.Request) (map[string]any, error) {
	body, err := contract.ReadBody(r, formType, maxBody)
	if err != nil {
		return nil, errMalformed
	}
	values, err := parsePairs(string(body))
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for name, list := range values {
		if op.Body.Properties[name] == nil {
			return nil, errMalformed
		}
		if list[0] != "" {
			fields[name] = list[0]
		}
	}
	return fields, nil
}

// unsupported are the errors of the fields whose values the document lists: another value is not malformed, but unsupported
// (specification 7.3).
var unsupported = map[string]error{
	"grant_type":      errUnsupportedGrantType,
	"token_type_hint": errUnsupportedTokenType,
}

// checkFields holds the fields of a form against the document. An unsupported value is reported only if all other fields are
// right.
func (op *operation) checkFields(fields map[string]any) error {
	for _, value := range fields {
		if utf8.RuneCountInString(value.(string)) > maxFieldSize {
			return errMalformed
		}
	}
	if op.Validate(fields) == nil {
		return nil
	}
	refusal := errMalformed
	for name, schema := range op.Body.Properties {
		value, given := fields[name]
		switch {
		case !given && slices.Contains(op.Body.Required, name):
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
