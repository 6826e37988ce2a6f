package strictapi

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"connect-svc/internal/telemetry"
)

// operation is what the document says about one operation.
type operation struct {
	id   string
	path map[string]*openapi3.Schema
	body *jsonschema.Schema // nil where no body is allowed
}

const (
	documentURL = "https://connect.example/document.json"
	bodyType    = "application/json"
)

// readDocument reads the operations of a document, which is there twice: loaded, and as JSON.
func readDocument(document *openapi3.T, text []byte) (map[string]*operation, error) {
	compiler, err := newCompiler(text)
	if err != nil {
		return nil, err
	}
	operations := map[string]*operation{}
	for path, item := range document.Paths.Map() {
		for method, described := range item.Operations() {
			op := &operation{id: described.OperationID, path: map[string]*openapi3.Schema{}}
			for _, parameter := range item.Parameters {
				op.path[parameter.Value.Name] = parameter.Value.Schema.Value
			}
			if body := described.RequestBody; body != nil {
				if op.body, err = compiler.Compile(documentURL + body.Value.Content[bodyType].Schema.Ref); err != nil {
					return nil, fmt.Errorf("%s: %w", op.id, err)
				}
			}
			operations[method+" "+path] = op
		}
	}
	return operations, nil
}

// newCompiler compiles schemas of the document by reference; formats, such as that of a date, count.
func newCompiler(text []byte) (*jsonschema.Compiler, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	return compiler, compiler.AddResource(documentURL, document)
}

// guard lets a request through to its operation when its shape and its body are as the document says.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := a.operations[r.Method+" "+chi.RouteContext(r.Context()).RoutePattern()]
		telemetry.EventOf(r.Context()).Operation = op.id
		if err := op.check(r); err != nil {
			a.Fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check is the order of the checks that the document promises. It reads the body and leaves it there to be read again.
func (op *operation) check(r *http.Request) error {
	for name, schema := range op.path {
		if schema.VisitJSON(chi.URLParam(r, name)) != nil {
			return errNoOperation
		}
	}
	switch {
	case r.URL.RawQuery != "" || r.URL.ForceQuery:
		return errMalformed
	case op.body != nil:
		return checkBody(r, op.body)
	case r.ContentLength != 0: // announced, be it of unknown length
		return errMalformed
	}
	return nil
}
