package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
)

// Operation is an operation of a document.
type Operation struct {
	ID    string
	Needs map[string][]string         // the required scopes, by security scheme
	Path  map[string]*openapi3.Schema // of its segments in braces
	Query map[string]*openapi3.Schema
	Body  *openapi3.Schema   // nil: no body is allowed
	Batch bool               // it may take as long as a batch: x-time-limit
	whole *jsonschema.Schema // Body, compiled by the library that supports if, then and else

	required []string                  // of Query
	digits   map[string]*regexp.Regexp // patterns of the query's integers, which openapi3 ignores
}

const documentURL = "https://connect.example/document.json"

// Read returns the operations of an OpenAPI document by method and path, such as "GET /operator/v1/users/{user_id}". All bodies have the
// media type.
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
				digits: map[string]*regexp.Regexp{}}
			operations[method+" "+path] = op
			if limit, limited := described.Extensions["x-time-limit"]; limited {
				if op.Batch = limit == "batch"; !op.Batch {
					return nil, fmt.Errorf("contract: %s has the unknown x-time-limit %v", op.ID, limit)
				}
			}
			security := &loaded.Security
			if described.Security != nil {
				security = described.Security
			}
			for _, needed := range *security {
				maps.Copy(op.Needs, needed)
			}
			for _, parameter := range append(item.Parameters, described.Parameters...) {
				name, schema := parameter.Value.Name, parameter.Value.Schema.Value
				switch parameter.Value.In {
				case openapi3.ParameterInPath:
					op.Path[name] = schema
				case openapi3.ParameterInQuery:
					op.Query[name] = schema
					if parameter.Value.Required {
						op.required = append(op.required, name)
					}
					if !schema.Type.Is(openapi3.TypeInteger) {
						continue
					}
					if op.digits[name], err = regexp.Compile(schema.Pattern); err != nil {
						return nil, fmt.Errorf("contract: %s: %w", op.ID, err)
					}
				}
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

// Route returns the method and path of the routed operation, a key of the map of [Read].
func Route(r *http.Request) string {
	return r.Method + " " + chi.RouteContext(r.Context()).RoutePattern()
}

// CheckPath reports whether the path parameters are as documented.
func (op *Operation) CheckPath(r *http.Request) bool {
	for name, schema := range op.Path {
		if schema.VisitJSON(chi.URLParam(r, name)) != nil {
			return false
		}
	}
	return true
}

// Validate validates a body against the document. Its error may quote values: do not show or log it.
func (op *Operation) Validate(body any) error { return op.whole.Validate(body) }

// HasBody reports whether the body of a request has a byte. How it is framed does not matter: chunks of HTTP/1.1 and frames of HTTP/2
// may turn out to be empty. It waits for a body of unknown length until the deadline of the request's context. A body that breaks off,
// or that has not ended by then, counts as one.
func HasBody(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	connection := http.NewResponseController(w)
	if end, limited := r.Context().Deadline(); limited {
		_ = connection.SetReadDeadline(end) // in place of the server's; not all tests have a connection
	}
	if _, err := io.ReadFull(r.Body, make([]byte, 1)); !errors.Is(err, io.EOF) {
		return true
	}
	_ = connection.SetReadDeadline(time.Time{}) // net/http takes a late deadline for a caller that has left
	return false
}

// HasQuery reports whether a request has a query string, even an empty one.
func HasQuery(r *http.Request) bool { return r.URL.RawQuery != "" || r.URL.ForceQuery }

// Errors of a body as a whole.
var (
	ErrMalformed = errors.New("malformed request")
	ErrMediaType = errors.New("another media type")
	ErrTooLarge  = errors.New("body too large")
)

// ReadBody reads a body of at most a number of bytes. There must be one content type: the media type, alone or with charset=utf-8.
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
	// One more byte shows that a body is too long. http.MaxBytesReader would close the connection while the caller still sends, so that
	// the response would not arrive.
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if err != nil {
		return nil, ErrMalformed
	}
	if int64(len(body)) > most {
		return nil, ErrTooLarge
	}
	return body, nil
}

// ParsePairs reads a query string or a form, whose pairs are parameters or fields. Each name may occur once, and all texts must be [text.IsStorable].
// The error is a [refusal.Field], with its name only if it is a known one.
func ParsePairs(encoded, kind string, known []string) (url.Values, error) {
	refused := func(name, problem string) error {
		return refusal.Field{Path: refusal.Named(kind, name, known), Problem: problem}
	}
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, refused(refusal.Undecodable(encoded), refusal.NotEncoded)
	}
	for name, list := range values {
		if len(list) != 1 {
			return nil, refused(name, "is repeated")
		}
		if !text.IsStorable(name) || !text.IsStorable(list[0]) {
			return nil, refused(name, "has a NUL, or text that is not UTF-8")
		}
	}
	return values, nil
}

// Accepts reports whether the document accepts a text as the value of a known query parameter.
func (op *Operation) Accepts(name, text string) bool {
	schema, pattern := op.Query[name], op.digits[name]
	if pattern == nil {
		return schema.VisitJSON(text) == nil
	}
	number, err := strconv.ParseFloat(text, 64)
	return err == nil && pattern.MatchString(text) && schema.VisitJSON(number) == nil
}

func (op *Operation) checkQuery(r *http.Request) error {
	if len(op.Query) == 0 {
		if HasQuery(r) {
			return ErrMalformed
		}
		return nil
	}
	values, err := ParsePairs(r.URL.RawQuery, "parameter", nil)
	if err != nil {
		return ErrMalformed
	}
	for name, list := range values {
		schema := op.Query[name]
		if schema == nil {
			return ErrMalformed
		}
		_, err := time.Parse(time.DateOnly, list[0])
		if !op.Accepts(name, list[0]) || schema.Format == "date" && err != nil { // such as the 30th of February
			return refusal.Because(ErrMalformed, name+": is not as documented")
		}
	}
	if slices.ContainsFunc(op.required, func(name string) bool { return !values.Has(name) }) {
		return ErrMalformed
	}
	return nil
}
