// Package generated makes requests for tests with pgregory.net/rapid. From the routes of a router it makes unforeseen requests
// ([Hostile]). From an OpenAPI document it makes requests of each operation, with values that its schemas allow and values that
// they do not, and says of each request whether the document allows it. Tests add the rules that stand in the document's prose
// alone.
package generated

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"connect-svc/internal/testing/contracttest"
	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"
)

// Fewer sequences than rapid's hundred go with all other tests. A long run sets their number with -rapid.checks.
var _ = flag.Set("rapid.checks", "30")

const (
	formText = "application/x-www-form-urlencoded"
	jsonText = "application/json"
)

// Request is one of the document, with whether the document allows it.
type Request struct {
	Method, Target string
	Header         http.Header
	Body           string
	Chunked        bool // without Content-Length
	Operation      *openapi3.Operation
	Valid          bool
}

// Request makes one for a random operation, without credentials.
func (g Generator) Request(document *openapi3.T) Request {
	path := g.One("path", slices.Sorted(maps.Keys(document.Paths.Map()))...)
	item := document.Paths.Value(path)
	method := g.One("method", slices.Sorted(maps.Keys(item.Operations()))...)
	r := Request{Method: method, Header: http.Header{}, Operation: item.GetOperation(method), Valid: true}
	var query []string
	for _, reference := range append(slices.Clone(item.Parameters), r.Operation.Parameters...) {
		parameter := reference.Value
		value := g.Value(parameter.Name, parameter.Schema.Value)
		if parameter.In == openapi3.ParameterInPath {
			path = strings.Replace(path, "{"+parameter.Name+"}", url.PathEscape(value.Text), 1)
			r.Valid = r.Valid && value.Valid
		} else if !g.Chance(10, parameter.Name+" left out?") && (parameter.Required || g.Chance(2, parameter.Name+"?")) {
			query = append(query, url.QueryEscape(parameter.Name)+"="+url.QueryEscape(value.Text))
			r.Valid = r.Valid && value.Valid
		} else {
			r.Valid = r.Valid && !parameter.Required
		}
	}
	r.Target = path
	if query = g.spoil("query", query, &r.Valid); len(query) > 0 {
		r.Target += "?" + strings.Join(query, "&")
	}
	g.body(&r)
	if g.Chance(25, "another method?") {
		methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "INVENTED"}
		methods = slices.DeleteFunc(methods, func(other string) bool {
			return item.Operations()[other] != nil || other == "HEAD" && item.Get != nil // it is GET
		})
		r.Method, r.Valid = g.One("other method", methods...), false
	}
	return r
}

// spoil repeats, adds or breaks a pair now and then.
func (g Generator) spoil(label string, pairs []string, valid *bool) []string {
	if !g.Chance(6, label+" spoilt?") {
		return pairs
	}
	*valid = false
	if len(pairs) > 0 && g.Chance(2, label+" repeated?") {
		return append(pairs, g.One(label+" again", pairs...))
	}
	return append(pairs, g.One(label+" spoilt", "a=b", "%zz", "=", "a;b", "a=%ff", "%00", "client_secret=x", "from="))
}

// body makes that of an operation which has one, and seldom a body for one that has none.
func (g Generator) body(r *Request) {
	if r.Operation.RequestBody == nil {
		if g.Chance(15, "body?") {
			r.Body, r.Chunked, r.Valid = "x", g.Chance(2, "chunked?"), false
		}
		return
	}
	content, contentType := r.Operation.RequestBody.Value.Content, formText
	if media := content[formText]; media != nil {
		g.form(r, media.Schema.Value)
	} else {
		contentType = jsonText
		g.json(r, content[jsonText].Schema.Value)
	}
	r.Chunked = r.Body != "" && g.Chance(10, "chunked?")
	r.Header["Content-Type"] = []string{g.One("charset", contentType, contentType+"; charset=utf-8")}
	if g.Chance(15, "another content type?") {
		others := []string{jsonText, formText, "text/plain", "", "multipart/form-data; boundary=x", "a/b/c"}
		others = slices.DeleteFunc(others, func(other string) bool { return other == contentType })
		r.Header["Content-Type"] = []string{g.One("content type", others...)}
		r.Valid = false
	}
}

func (g Generator) form(r *Request, schema *openapi3.Schema) {
	fields := map[string]any{}
	fine := true
	add := func(name string) {
		value := g.Value(name, schema.Properties[name].Value)
		if value.Text != "" { // a field without a value counts as missing
			fields[name] = value.Text
		}
		fine = fine && Clean(value.Text)
	}
	for _, name := range schema.Required {
		add(name)
	}
	// Most forms have just the fields that go with the choice that was made.
	branch := schema
	if choice := schema.Discriminator; choice != nil {
		if named := choice.Mapping[fmt.Sprint(fields[choice.PropertyName])].Ref; named != "" {
			branch = schema.OneOf[slices.IndexFunc(schema.OneOf, func(ref *openapi3.SchemaRef) bool { return ref.Ref == named })].Value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		wanted := slices.Contains(branch.Required, name) && !g.Chance(15, name+" left out?")
		if fields[name] == nil && (wanted || g.Chance(12, name+" extra?")) {
			add(name)
		}
	}
	r.Valid = r.Valid && fine && schema.VisitJSON(fields, openapi3.EnableJSONSchema2020()) == nil
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(fields[name].(string)))
	}
	r.Body = strings.Join(g.spoil("form", pairs, &r.Valid), "&")
}

// Try sends the request to the server at base, and returns the answer. It fails if the contract does not have the answer, and after
// success for what the document does not allow, a complaint about the form of what it allows, or a fault.
func (r Request) Try(t *rapid.T, base string, contract contracttest.Contract) (status int, body []byte) {
	var content io.Reader
	if r.Body != "" {
		content = strings.NewReader(r.Body)
		if r.Chunked {
			content = io.MultiReader(content)
		}
	}
	request, err := http.NewRequestWithContext(context.Background(), r.Method, base+r.Target, content)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, r.Header)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatalf("%s %q: %v", r.Method, r.Target, err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatalf("%s %q: %v", r.Method, r.Target, err)
	}
	status = response.StatusCode
	wrong := func(problem string) {
		t.Fatalf("%s %.500q with %.500q and %.2000q: %s, but the answer is %d", r.Method, r.Target, r.Header, r.Body, problem, status)
	}
	if err := contract.Check(request, status, response.Header, body); err != nil {
		wrong(err.Error())
	}
	code, open := contracttest.ErrorCode(body), r.Operation.Security
	malformed := code == "invalid_request" || code == "malformed-request" || code == "too-large" || strings.HasPrefix(code, "unsupported")
	switch {
	case status >= 500:
		wrong("it must be answered")
	case open != nil && len(*open) == 0 && status < 400: // anybody may ask, with anything beside it
	case r.Valid && malformed:
		wrong("the document allows it")
	case !r.Valid && status < 400:
		wrong("the document does not allow it")
	}
	return status, body
}
