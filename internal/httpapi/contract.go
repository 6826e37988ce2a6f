package httpapi

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/scope"
)

// operation is what the document says about one operation.
type operation struct {
	id    string
	basic bool      // needs client authentication
	scope scope.Set // the scope that an access token needs; 0 where none is taken
	path  map[string]*openapi3.Schema
	query map[string]parameter
	form  *form // nil where no body is allowed
}

// parameter of the query.
type parameter struct {
	*openapi3.Schema
	// lexical is how a number is written. It is nil for texts: what the document says of them is about their value.
	lexical *regexp.Regexp
	// date says that a bad value is the read's concern and not the shape's (decisions, section 2).
	date bool
}

// form is a body. Its fields are checked one by one, then all of them together by whole, which knows if, then and else.
type form struct {
	*openapi3.Schema
	whole *jsonschema.Schema
}

// The names that the document gives its parts.
const (
	basicScheme  = "clientCredentials"
	bearerScheme = "accessToken"
	formType     = "application/x-www-form-urlencoded"
	grantID      = "grant_id"
)

// readContract reads the operations from the embedded document.
func readContract() (map[string]*operation, error) {
	document, err := partnerapi.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("the embedded document: %w", err)
	}
	compiler, err := newCompiler()
	if err != nil {
		return nil, fmt.Errorf("the embedded document: %w", err)
	}
	operations := map[string]*operation{}
	for path, item := range document.Paths.Map() {
		for method, described := range item.Operations() {
			op := &operation{
				id:    described.OperationID,
				path:  map[string]*openapi3.Schema{},
				query: map[string]parameter{},
			}
			security := &document.Security
			if described.Security != nil {
				security = described.Security
			}
			if err := op.readSecurity(*security); err != nil {
				return nil, fmt.Errorf("%s: %w", op.id, err)
			}
			if err := op.readParameters(item.Parameters, described.Parameters); err != nil {
				return nil, fmt.Errorf("%s: %w", op.id, err)
			}
			if body := described.RequestBody; body != nil {
				reference := body.Value.Content[formType].Schema
				whole, err := compiler.Compile(documentURL + reference.Ref)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", op.id, err)
				}
				op.form = &form{reference.Value, whole}
			}
			operations[method+" "+path] = op
		}
	}
	return operations, nil
}

const documentURL = "https://connect.example/openapi.json"

// newCompiler compiles schemas of the document by reference. The validator of package openapi3 would do it anew for
// each request.
func newCompiler() (*jsonschema.Compiler, error) {
	text, err := partnerapi.GetSpecJSON()
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	return compiler, compiler.AddResource(documentURL, document)
}

func (op *operation) readSecurity(security openapi3.SecurityRequirements) error {
	for _, requirement := range security {
		_, op.basic = requirement[basicScheme]
		for _, name := range requirement[bearerScheme] {
			needed, err := scope.Parse(name)
			if err != nil {
				return fmt.Errorf("scope %q: %w", name, err)
			}
			op.scope |= needed
		}
	}
	return nil
}

func (op *operation) readParameters(lists ...openapi3.Parameters) error {
	for _, list := range lists {
		for _, reference := range list {
			name, schema := reference.Value.Name, reference.Value.Schema.Value
			if reference.Value.In == openapi3.ParameterInPath {
				op.path[name] = schema
				continue
			}
			read := parameter{Schema: schema, date: schema.Format == "date"}
			if schema.Type.Is(openapi3.TypeInteger) {
				lexical, err := regexp.Compile(schema.Pattern)
				if err != nil {
					return fmt.Errorf("parameter %s: %w", name, err)
				}
				read.lexical = lexical
			}
			op.query[name] = read
		}
	}
	return nil
}

// accepts says whether the document accepts the text as the value of the parameter.
func (p parameter) accepts(text string) bool {
	if p.lexical == nil {
		return p.VisitJSON(text) == nil
	}
	number, err := strconv.ParseFloat(text, 64)
	return err == nil && p.lexical.MatchString(text) && p.VisitJSON(number) == nil
}
