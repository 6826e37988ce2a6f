// Package reference reads an OpenAPI document for the pages of the reference: operations and webhooks in the order of the document,
// their fields with all rules of the schemas, examples, and the error codes with their responses. Descriptions stay Markdown.
//
// Each operation, field and header has a unique ID made of names, such as readDailyActivity-200-data-steps, so that links last as
// long as the names.
package reference

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is an OpenAPI document for pages.
type Document struct {
	Version     string
	Description string // Markdown
	Schemes     []Scheme
	Groups      []Group
	Codes       []Code

	base string
}

// Scheme is a way to authenticate.
type Scheme struct {
	ID, Label, Description string
	Scopes                 []Scope
}

// Scope is a permission.
type Scope struct{ Name, Description string }

// Group has the operations of a tag.
type Group struct {
	ID, Label, Description string
	Operations             []Operation
}

// Operation is a request to the service or, as a webhook, from it.
type Operation struct {
	ID, Label, Description string
	Webhook                string // its name; empty for requests to the service
	Method, Path           string
	Scheme                 *Scheme // nil if there is none
	Open                   bool    // the document has no scheme
	Scopes                 []string
	Parameters             []Parameters
	Bodies                 []Body // the body is one of them
	Answers, Errors        []Answer
	Samples                []Sample // of requests

	tags []string
}

// Parameters are in the path, the query or the headers.
type Parameters struct {
	Label  string
	Fields []Field
}

// Body of a request.
type Body struct {
	Label     string // distinguishes several, and is empty if there is one
	MediaType string
	Fields    []Field
}

// Answer is a response.
type Answer struct {
	ID, Status, Label, Description string
	Headers, Fields                []Field
	Codes, texts                   []string // of errors
	Samples                        []Sample
}

// Sample is an example as it is sent.
type Sample struct{ Label, Language, Text string }

// Code is an error code with its responses, if any.
type Code struct {
	Name string
	Uses []Use
}

// Use has the operations that respond with a code, a status and a text.
type Use struct {
	Status, Text string
	Operations   []Operation
}

// Read reads a document. Examples of requests go to base.
func Read(document []byte, base string) (*Document, error) {
	parsed, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, err
	}
	r := &Document{Version: parsed.Info.Version, Description: parsed.Info.Description, base: base}
	r.readSchemes(parsed)
	for _, tag := range parsed.Tags {
		r.Groups = append(r.Groups, Group{ID: "group-" + strings.ToLower(tag.Name), Label: tag.Name, Description: tag.Description})
	}
	var operations []Operation
	for path, item := range parsed.Paths.Map() {
		for method, operation := range item.Operations() {
			operations = append(operations, r.operation(parsed, path, "", method, item, operation))
		}
	}
	for name, item := range parsed.Webhooks {
		for method, operation := range item.Operations() {
			operations = append(operations, r.operation(parsed, "", name, method, item, operation))
		}
	}
	// The library does not keep the document's order, so take it from the positions in the text.
	place := func(o Operation) int { return bytes.Index(document, []byte("operationId: "+o.ID+"\n")) }
	slices.SortFunc(operations, func(a, b Operation) int { return place(a) - place(b) })
	for _, o := range operations {
		at := slices.IndexFunc(r.Groups, func(g Group) bool { return slices.Equal(o.tags, []string{g.Label}) })
		if at < 0 {
			return nil, fmt.Errorf("%s: must have one tag that the document knows: %q", o.ID, o.tags)
		}
		r.Groups[at].Operations = append(r.Groups[at].Operations, o)
	}
	r.readCodes(parsed, operations)
	return r, nil
}

func (r *Document) readSchemes(parsed *openapi3.T) {
	labels := map[string]string{"http": "Client credentials", "oauth2": "Access token"}
	for name, scheme := range parsed.Components.SecuritySchemes {
		s := Scheme{ID: "scheme-" + name, Label: labels[scheme.Value.Type], Description: scheme.Value.Description}
		if flows := scheme.Value.Flows; flows != nil {
			for scope, description := range flows.AuthorizationCode.Scopes {
				s.Scopes = append(s.Scopes, Scope{scope, description})
			}
			slices.SortFunc(s.Scopes, func(a, b Scope) int { return -strings.Compare(a.Name, b.Name) })
		}
		r.Schemes = append(r.Schemes, s)
	}
	slices.SortFunc(r.Schemes, func(a, b Scheme) int { return -strings.Compare(a.ID, b.ID) })
}

func (r *Document) operation(parsed *openapi3.T, path, webhook, method string, item *openapi3.PathItem, declared *openapi3.Operation) Operation {
	o := Operation{
		ID: declared.OperationID, Label: declared.Summary, Description: declared.Description, Webhook: webhook, Method: method, Path: path,
		tags: declared.Tags, Open: r.Schemes == nil,
	}
	needs := parsed.Security
	if declared.Security != nil {
		needs = *declared.Security
	}
	for _, need := range needs {
		for name, scopes := range need {
			at := slices.IndexFunc(r.Schemes, func(s Scheme) bool { return s.ID == "scheme-"+name })
			o.Scheme, o.Scopes = &r.Schemes[at], scopes
		}
	}
	parameters := slices.Concat(item.Parameters, declared.Parameters)
	for _, place := range []struct{ in, label string }{{"path", "Path"}, {"query", "Query"}, {"header", "Headers"}} {
		var fields []Field
		for _, p := range parameters {
			if p.Value.In != place.in {
				continue
			}
			f := sent.fieldOf(o.ID+"-request", p.Value.Name, p.Value.Schema, p.Value.Required)
			f.Description = p.Value.Description
			fields = append(fields, f)
		}
		if fields != nil {
			o.Parameters = append(o.Parameters, Parameters{place.label, fields})
		}
	}
	var examples []example
	if declared.RequestBody != nil {
		for mediaType, media := range declared.RequestBody.Value.Content {
			o.Bodies = bodiesOf(o.ID+"-request", mediaType, media.Schema)
			examples = examplesOf(media)
		}
	}
	o.Samples = requestSamples(r.base, o, parameters, examples)
	for status, answer := range declared.Responses.Map() {
		a := answerOf(o.ID, status, answer.Value)
		if len(a.Codes) > 0 {
			o.Errors = append(o.Errors, a)
		} else {
			o.Answers = append(o.Answers, a)
		}
	}
	for _, answers := range [][]Answer{o.Answers, o.Errors} {
		slices.SortFunc(answers, func(a, b Answer) int { return strings.Compare(a.Status, b.Status) })
	}
	return o
}

func answerOf(operation, status string, response *openapi3.Response) Answer {
	a := Answer{ID: operation + "-" + status, Status: status, Description: *response.Description}
	switch status {
	case "2XX":
		a.Label = "Taken"
	case "default":
		a.Status, a.Label = "else", "Not taken"
	default:
		number, _ := strconv.Atoi(status) // OpenAPI requires three digits
		a.Label = http.StatusText(number)
	}
	for name, header := range response.Headers {
		f := received.fieldOf(a.ID+"-header", name, header.Value.Schema, header.Value.Required)
		f.Description = header.Value.Description
		a.Headers = append(a.Headers, f)
	}
	slices.SortFunc(a.Headers, func(x, y Field) int { return strings.Compare(x.Name, y.Name) })
	for _, media := range response.Content {
		a.Fields = received.fieldsOf(a.ID, plainSchema(media.Schema))
		for _, e := range examplesOf(media) {
			a.Samples = append(a.Samples, Sample{e.label, "json", jsonOf(e.value, media.Schema.Value)})
			if code, text := errorOf(e.value); code != "" {
				a.Codes, a.texts = append(a.Codes, code), append(a.texts, text)
			}
		}
		// The schemas list all codes. The examples have the codes of this response.
		if len(a.Codes) > 0 {
			a.Fields[0].Values = slices.DeleteFunc(a.Fields[0].Values, func(value string) bool {
				return !slices.Contains(a.Codes, strings.TrimPrefix(value, problemPrefix))
			})
		}
	}
	return a
}

// problemPrefix begins the types of problem details. The rest is the code.
const problemPrefix = "urn:connect-svc:problem:"

// errorOf returns the code and the text of an error's body, in one of its three shapes.
func errorOf(body any) (code, text string) {
	object, _ := body.(map[string]any)
	if kind, ok := object["type"].(string); ok && strings.HasPrefix(kind, problemPrefix) {
		text, _ = object["title"].(string)
		return strings.TrimPrefix(kind, problemPrefix), text
	}
	if detail, ok := object["error"].(map[string]any); ok {
		code, _ = detail["code"].(string)
		text, _ = detail["message"].(string)
		return code, text
	}
	code, _ = object["error"].(string)
	text, _ = object["error_description"].(string)
	return code, text
}

// readCodes finds the operations of each code by the examples of their responses. Some codes have no operation.
func (r *Document) readCodes(parsed *openapi3.T, operations []Operation) {
	codes := map[string]*Code{}
	know := func(name string) *Code {
		if codes[name] == nil {
			codes[name] = &Code{Name: name}
		}
		return codes[name]
	}
	for name, schema := range parsed.Components.Schemas { // the codes that the schemas of errors allow
		values := schema.Value.Enum
		if code := schema.Value.Properties["code"]; code != nil && strings.HasSuffix(name, "Detail") {
			values = append(code.Value.Enum, code.Value.Const)
		} else if !strings.HasSuffix(name, "ErrorCode") {
			continue
		}
		for _, value := range values {
			if code, ok := value.(string); ok {
				know(code)
			}
		}
	}
	for _, o := range operations {
		for _, answer := range o.Errors {
			for i, name := range answer.Codes {
				code := know(name)
				use := slices.IndexFunc(code.Uses, func(u Use) bool { return u.Status == answer.Status && u.Text == answer.texts[i] })
				if use < 0 {
					use, code.Uses = len(code.Uses), append(code.Uses, Use{Status: answer.Status, Text: answer.texts[i]})
				}
				code.Uses[use].Operations = append(code.Uses[use].Operations, o)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(codes)) {
		r.Codes = append(r.Codes, *codes[name])
	}
}
