package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Operation is what a document says about one operation.
type Operation struct {
	ID    string
	Needs map[string][]string         // the scopes that it takes, by security scheme
	Path  map[string]*openapi3.Schema // of its segments in braces
	Query map[string]*openapi3.Schema
	Body  *openapi3.Schema   // nil where no body is allowed
	whole *jsonschema.Schema // the same, compiled: the one that knows if, then and else

	written map[string]*regexp.Regexp // of the query's numbers
}

const documentURL = "https://connect.example/document.json"

// Read returns the operations of an OpenAPI document, whose bodies have one media type, by method and path, as in
// "GET /operator/v1/users/{user_id}".
func Read(text func() ([]byte, error), mediaType string) (map[string]*Operation, error) {
	encoded, err := text()
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	loaded, err := openapi3.NewLoader().LoadFromData(encoded)
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if mediaType == jsonType {
		compiler.AssertFormat() // such as that of a date
	}
	if err := compiler.AddResource(documentURL, resource); err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	operations := map[string]*Operation{}
	for path, item := range loaded.Paths.Map() {
		for method, described := range item.Operations() {
			op := &Operation{ID: described.OperationID, Needs: map[string][]string{},
				Path: map[string]*openapi3.Schema{}, Query: map[string]*openapi3.Schema{},
				written: map[string]*regexp.Regexp{}}
			operations[method+" "+path] = op
			security := &loaded.Security
			if described.Security != nil {
				security = described.Security
			}
			for _, needed := range *security {
				for scheme, scopes := range needed {
					op.Needs[scheme] = scopes
				}
			}
			for _, parameter := range append(item.Parameters, described.Parameters...) {
				switch parameter.Value.In {
				case openapi3.ParameterInPath:
					op.Path[parameter.Value.Name] = parameter.Value.Schema.Value
				case openapi3.ParameterInQuery:
					op.Query[parameter.Value.Name] = parameter.Value.Schema.Value
				}
			}
			if err := op.readWritten(); err != nil {
				return nil, fmt.Errorf("contract: %s: %w", op.ID, err)
			}
			if body := described.RequestBody; body != nil {
				schema := body.Value.Content[mediaType].Schema
				op.Body = schema.Value
				if op.whole, err = compiler.Compile(documentURL + schema.Ref); err != nil {
					return nil, fmt.Errorf("contract: %s: %w", op.ID, err)
				}
			}
		}
	}
	return operations, nil
}

// Route is the method and the path of the operation that the router has found, as a key for what [Read] returns.
func Route(r *http.Request) string {
	return r.Method + " " + chi.RouteContext(r.Context()).RoutePattern()
}

// CheckPath says whether the segments of the path are as described.
func (op *Operation) CheckPath(r *http.Request) bool {
	for name, schema := range op.Path {
		if schema.VisitJSON(chi.URLParam(r, name)) != nil {
			return false
		}
	}
	return true
}

// Validate holds a body against the document. Its error names places in the body and may quote values: do not show it.
func (op *Operation) Validate(body any) error { return op.whole.Validate(body) }

// HasBody says whether a request announces a body, be it of unknown length.
func HasBody(r *http.Request) bool { return r.ContentLength != 0 }

// HasQuery says whether a request has a query string, be it an empty one.
func HasQuery(r *http.Request) bool { return r.URL.RawQuery != "" || r.URL.ForceQuery }

// Errors of a body as a whole.
var (
	ErrMalformed = errors.New("malformed request")
	ErrMediaType = errors.New("another media type")
	ErrTooLarge  = errors.New("body too large")
)

// ReadBody reads a body of at most so many bytes. Its one content type is the media type, alone or with charset=utf-8.
func ReadBody(r *http.Request, mediaType string, most int64) ([]byte, error) {
	types := r.Header.Values("Content-Type")
	if len(types) != 1 {
		return nil, ErrMediaType
	}
	named, parameters, err := mime.ParseMediaType(types[0])
	charset, given := parameters["charset"]
	if err != nil || named != mediaType || len(parameters) > 1 || len(parameters) == 1 && !given ||
		given && !strings.EqualFold(charset, "utf-8") {
		return nil, ErrMediaType
	}
	// One byte more shows that a body is too long. http.MaxBytesReader would close the connection while the caller still
	// sends, and the response would not arrive.
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if err != nil {
		return nil, ErrMalformed
	}
	if int64(len(body)) > most {
		return nil, ErrTooLarge
	}
	return body, nil
}

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
