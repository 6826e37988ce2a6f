package contracttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"connect-svc/api"
)

// document is an embedded document, with what this process has seen of it.
type document struct {
	spec *openapi3.T
	// noOperation are the right responses to a request for an unknown operation: their names in the document, by status. It is nil
	// for a path that is not the document's.
	noOperation func(path string) map[int]string
	former      *document // a response that is right by it is right

	compiled sync.Map // by schema, functions that return the compiled one

	mu   sync.Mutex
	seen map[string]int // how often each outcome came as documented
}

// Contract reads an embedded document once. One that is not valid panics.
type Contract func() *document

// The documents: api/openapi.yaml, api/operator.yaml, and api/sandbox.yaml of the sandbox's driver.
var (
	Partner = read(api.Partner, func(path string) map[int]string { // decisions, section 2
		switch {
		case strings.HasPrefix(path, "/connect-svc/v1/grants/"):
			return map[int]string{http.StatusNotFound: "NotFound"}
		case strings.HasPrefix(path, "/connect-svc/"), strings.HasPrefix(path, "/oauth/") && path != "/oauth/authorize",
			path == "/.well-known/oauth-authorization-server":
			return map[int]string{http.StatusNotFound: "DisconnectBadRequest"}
		}
		return nil // a page
	})
	Operator = read(api.Operator, func(string) map[int]string {
		return map[int]string{
			http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "ReadOnly", http.StatusNotFound: "UserNotFound",
		}
	})
	Sandbox = read(api.Sandbox, func(string) map[int]string {
		return map[int]string{http.StatusNotFound: "UserNotFound"}
	})
)

func read(text []byte, noOperation func(string) map[int]string) Contract {
	return sync.OnceValue(func() *document {
		spec, err := openapi3.NewLoader().LoadFromData(text)
		if err == nil {
			err = spec.Validate(context.Background())
		}
		if err != nil {
			panic(err)
		}
		return &document{spec: spec, noOperation: noOperation, seen: map[string]int{}}
	})
}

// Or is a contract by which a response is right, too, that is so by a former edition of the document: servers of two releases answer.
func (c Contract) Or(former []byte) Contract {
	return func() *document {
		d := c()
		return &document{spec: d.spec, noOperation: d.noOperation, former: read(former, d.noOperation)(), seen: map[string]int{}}
	}
}

// route finds the operation of a request. A parameter is one segment that is not empty, and an escaped path is another path.
// It is nil when there is none.
func (d *document) route(request *http.Request) *openapi3.Operation {
	segments := strings.Split(request.URL.EscapedPath(), "/")
	for path, item := range d.spec.Paths.Map() {
		matches := func(segment, template string) bool {
			return segment == template || segment != "" && strings.HasPrefix(template, "{")
		}
		operation := item.GetOperation(request.Method)
		if operation != nil && slices.EqualFunc(segments, strings.Split(path, "/"), matches) {
			return operation
		}
	}
	return nil
}

func (d *document) check(request *http.Request, status int, header http.Header, body []byte) error {
	if d.former != nil && d.former.check(request, status, header, body) == nil {
		return nil
	}
	operation := d.route(request)
	if operation == nil && request.Method == http.MethodHead {
		return d.checkHead(request, status, header, body)
	}
	if operation == nil {
		return d.checkNoOperation(request, status, header, body)
	}
	documented := operation.Responses.Value(strconv.Itoa(status))
	if documented == nil {
		return errors.New("no such status")
	}
	if err := checkHeaders(documented.Value, header, body); err != nil {
		return err
	}
	if err := d.checkSchemas(documented.Value, header, body); err != nil || status < 400 {
		return err
	}
	return checkError(documented.Value, status, header, body)
}

// checkHead wants the response of a GET without its body. An edge alone does not answer HEAD.
func (d *document) checkHead(request *http.Request, status int, header http.Header, body []byte) error {
	get := request.Clone(request.Context())
	get.Method = http.MethodGet
	operation := d.route(get)
	if operation == nil || operation.Responses.Value(strconv.Itoa(status)) == nil {
		return d.checkNoOperation(request, status, header, body)
	}
	if len(body) > 0 {
		return fmt.Errorf("HEAD has a body of %d bytes", len(body))
	}
	documented := operation.Responses.Value(strconv.Itoa(status)).Value
	if err := checkHeaders(documented, header, nil); err != nil {
		return err
	}
	return d.checkHeaderSchemas(documented, header)
}

// checkNoOperation checks the response to a request for an operation that the document lacks.
func (d *document) checkNoOperation(request *http.Request, status int, header http.Header, body []byte) error {
	names := d.noOperation(request.URL.Path)
	if names == nil {
		return nil
	}
	want := d.spec.Components.Responses[names[status]]
	if want == nil {
		return fmt.Errorf("this is no operation, so the status must be one of %v", slices.Sorted(maps.Keys(names)))
	}
	if err := d.checkHeaderSchemas(want.Value, header); err != nil {
		return err
	}
	if request.Method == http.MethodHead {
		return nil
	}
	if err := checkHeaders(want.Value, header, body); err != nil {
		return err
	}
	return checkError(want.Value, status, header, body)
}

// transportHeaders are those that HTTP itself adds.
var transportHeaders = []string{"Connection", "Content-Length", "Content-Type", "Date"}

// checkHeaders finds what the validator lets through: repeated and undocumented headers, and another content type.
func checkHeaders(response *openapi3.Response, header http.Header, body []byte) error {
	documented := map[string]bool{}
	for name := range response.Headers {
		documented[http.CanonicalHeaderKey(name)] = true
	}
	for name, values := range header {
		if len(values) != 1 {
			return fmt.Errorf("header %s comes %d times", name, len(values))
		}
		if !documented[name] && !slices.Contains(transportHeaders, name) {
			return fmt.Errorf("header %s is not documented", name)
		}
	}
	contentType, want := header.Get("Content-Type"), ""
	for mediaType := range response.Content { // there is at most one
		want = mediaType
	}
	if want == "" && len(body) > 0 {
		return fmt.Errorf("a body of %d bytes is not documented", len(body))
	}
	if contentType != want {
		return fmt.Errorf("Content-Type is %q, not %q", contentType, want)
	}
	return nil
}

// checkError wants the error to be one of the documented examples (specification 7: codes and messages are fixed), its id to
// be that of the header, and the headers of a read to say whether the request was counted (specification 8).
func checkError(response *openapi3.Response, status int, header http.Header, body []byte) error {
	var failure map[string]any
	if err := json.Unmarshal(body, &failure); err != nil {
		return err
	}
	examples, err := examplesOf(response)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(examples, func(example map[string]any) bool { return reflect.DeepEqual(fixed(example), fixed(failure)) }) {
		return fmt.Errorf("the error %s is none of the examples", body)
	}
	if id, has := failure["request_id"].(string); has && id != header.Get("X-Request-Id") {
		return fmt.Errorf("request_id is %q, but the header is %q", id, header.Get("X-Request-Id"))
	}
	if (failure["errors"] != nil) != (status == http.StatusUnprocessableEntity) {
		return errors.New("errors belong to 422 and to no other status")
	}
	_, ofRead := failure["error"].(map[string]any)
	counted := header.Get("RateLimit-Limit") != ""
	switch code := codeOf(failure); {
	case ofRead && code == "invalid_request" && counted:
		return errors.New("a malformed request has RateLimit headers")
	case (code == "invalid_date_range" || code == "invalid_cursor") && !counted:
		return errors.New("a counted request has no RateLimit headers")
	}
	return nil
}

// fixed is an error without what is different each time.
func fixed(failure map[string]any) map[string]any {
	failure = maps.Clone(failure)
	delete(failure, "request_id")
	delete(failure, "errors")
	return failure
}

// examplesOf are the errors that a response has as examples, as they come on the wire.
func examplesOf(response *openapi3.Response) (errors []map[string]any, err error) {
	for _, content := range response.Content {
		for _, example := range content.Examples {
			text, err := json.Marshal(example.Value.Value)
			if err != nil {
				return nil, err
			}
			var failure map[string]any
			if err := json.Unmarshal(text, &failure); err != nil {
				return nil, err
			}
			errors = append(errors, failure)
		}
	}
	return errors, nil
}

// codeOf is the code of an error in either shape of the partner API, or the type of a problem without its prefix.
func codeOf(failure map[string]any) (code string) {
	switch cause := failure["error"].(type) {
	case string:
		return cause
	case map[string]any:
		code, _ = cause["code"].(string)
	default:
		code, _ = failure["type"].(string)
	}
	return code[strings.LastIndex(code, ":")+1:]
}
