package partner

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
)

// Names in the document.
const (
	basicScheme  = "clientCredentials"
	bearerScheme = "accessToken"
	formType     = "application/x-www-form-urlencoded"
	grantID      = "grant_id"
)

// operation of the document.
type operation struct {
	*contract.Operation
	basic  bool      // it requires client authentication
	scope  scope.Set // that an access token needs; 0: it takes no access token
	fields []string  // of the form, sorted

	parameters []string // of the query string, sorted
}

// readOperations reads the embedded document once for all edges of a process.
var readOperations = sync.OnceValues(func() (map[string]*operation, error) {
	described, err := contract.Read(partnerapi.GetSpecJSON, formType)
	if err != nil {
		return nil, err
	}
	operations := map[string]*operation{}
	for route, read := range described {
		op := &operation{Operation: read}
		_, op.basic = read.Needs[basicScheme]
		for _, name := range read.Needs[bearerScheme] {
			needed, err := scope.Parse(name)
			if err != nil {
				return nil, fmt.Errorf("%s: scope %q: %w", read.ID, name, err)
			}
			op.scope |= needed
		}
		if op.Body != nil {
			op.fields = slices.Sorted(maps.Keys(op.Body.Properties))
		}
		op.parameters = slices.Sorted(maps.Keys(op.Query))
		operations[route] = op
	}
	return operations, nil
})

// Limits of specification section 8.
const (
	maxReadURL   = 4096 // characters of a read's complete URL
	maxBody      = 8192 // bytes of a form
	maxFieldSize = 2048 // characters of a form's field
)

// parsePairs is [contract.ParsePairs] with errors of this edge.
func parsePairs(encoded, kind string, known []string) (url.Values, error) {
	values, err := contract.ParsePairs(encoded, kind, known)
	if wrong, ok := errors.AsType[refusal.Field](err); ok {
		return nil, malformed(wrong.Path + " " + wrong.Problem)
	}
	return values, err
}

// shapes describes the values that the document accepts, of the parameters and fields whose values can be wrong.
var shapes = map[string]string{
	"limit":         "no number from 1 to 500 in plain digits",
	"cursor":        "empty, or has more than 4096 characters",
	"code_verifier": "not of 43 to 128 characters, which are letters, digits and . _ ~ -",
}

// checkRead checks the shape of a read (decisions, section 2): its URL, and its parameters except the dates.
func (op *operation) checkRead(r *http.Request, baseURL string) error {
	if len(baseURL)+len(r.URL.RequestURI()) > maxReadURL {
		return malformed("the URL has more than 4096 characters")
	}
	values, err := parsePairs(r.URL.RawQuery, "parameter", op.parameters)
	if err != nil {
		return err
	}
	for name, list := range values {
		described, known := op.Query[name]
		if !known {
			return malformed(refusal.Unknown("parameter", name, op.parameters))
		}
		if described.Format != "date" && !op.Accepts(name, list[0]) { // dates are checked later
			return malformed(name + " is " + shapes[name])
		}
	}
	return nil
}

// readForm reads a form. Every field must be in the document. A field without a value is missing (RFC 6749, section 3.2).
func (op *operation) readForm(r *http.Request) (map[string]any, error) {
	body, err := contract.ReadBody(r, formType, maxBody)
	switch {
	case errors.Is(err, contract.ErrMediaType):
		return nil, malformed("Content-Type is not " + formType + ", once")
	case errors.Is(err, contract.ErrTooLarge):
		return nil, malformed("the body has more than 8192 bytes")
	case err != nil:
		return nil, malformed("the body broke off")
	}
	values, err := parsePairs(string(body), "field", op.fields)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for name, list := range values {
		if op.Body.Properties[name] == nil {
			// Support explains the error to the client that a body with credentials names.
			event := telemetry.EventOf(r.Context())
			if id, err := uuid.Parse(values.Get("client_id")); err == nil && event.ClaimedID == uuid.Nil {
				event.ClaimedID = id
			}
			return nil, malformed(op.unknownField(name, values))
		}
		if list[0] != "" {
			fields[name] = list[0]
		}
	}
	return fields, nil
}

// unknownField describes the usual mistakes of forms with unknown fields, of which one has the name.
func (op *operation) unknownField(name string, values url.Values) string {
	for _, name := range []string{"client_secret", "client_assertion", "client_id"} {
		if values.Has(name) {
			return "credentials in the body: " + name + " (they belong in the Authorization header)"
		}
	}
	grant := values.Get("grant_type")
	switch {
	case !values.Has("scope"):
		return refusal.Unknown("field", name, op.fields)
	case partnerapi.GrantType(grant).Valid():
		return "field scope is not allowed with grant_type=" + grant
	}
	return "field scope is not allowed"
}

// unsupported has the errors of fields with a list of values in the document. Another value is not malformed but unsupported
// (specification 7.3).
var unsupported = map[string]error{
	"grant_type":      errUnsupportedGrantType,
	"token_type_hint": errUnsupportedTokenType,
}

// checkFields validates the fields of a form as the document describes them (TestFieldsAreThoseOfTheDocument compares them): the document's
// whole schema, which tries both grants, would take a seventh of a refresh. It reports an unsupported value only if all other fields are right.
func (op *operation) checkFields(fields map[string]any) error {
	for name, value := range fields {
		if utf8.RuneCountInString(value.(string)) > maxFieldSize {
			return malformed("field " + name + " has more than 2048 characters")
		}
	}
	var wrong error
	for _, name := range op.fields {
		schema := op.Body.Properties[name]
		value, given := fields[name]
		switch {
		case !given && slices.Contains(op.Body.Required, name):
			return malformed("field " + name + " is missing")
		case !given || schema.Value.VisitJSON(value) == nil:
		case unsupported[name] == nil:
			return malformed("field " + name + " is " + shapes[name])
		default:
			wrong = unsupported[name]
		}
	}
	grant, ok := grantFields[fields["grant_type"]]
	if !ok || wrong != nil {
		return wrong
	}
	for _, name := range op.fields {
		_, given := fields[name]
		switch takes := slices.Contains(grant, name); {
		case takes && !given:
			return malformed(fmt.Sprintf("field %s is missing with grant_type=%s", name, fields["grant_type"]))
		case given && !takes && name != "grant_type":
			return malformed(fmt.Sprintf("field %s is not allowed with grant_type=%s", name, fields["grant_type"]))
		}
	}
	return nil
}

// grantFields lists the fields of each grant besides grant_type.
var grantFields = map[any][]string{
	string(partnerapi.GrantTypeAuthorizationCode): {"code", "code_verifier", "redirect_uri"},
	string(partnerapi.GrantTypeRefreshToken):      {"refresh_token"},
}
