package contracttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"connect-svc/gen/partnerapi"
)

// document is the embedded document, with what of it this process has seen.
type document struct {
	spec *openapi3.T
	seen coverage
}

var load = sync.OnceValues(func() (*document, error) {
	spec, err := partnerapi.GetSpec()
	if err != nil {
		return nil, err
	}
	return &document{spec: spec}, spec.Validate(context.Background())
})

// route finds the operation of a request, to the letter: a parameter is one segment that is not empty, and an escaped
// path is another path. It is nil when there is none.
func (d *document) route(request *http.Request) *routers.Route {
	segments := strings.Split(request.URL.EscapedPath(), "/")
	for path, item := range d.spec.Paths.Map() {
		matches := func(segment, template string) bool {
			return segment == template || segment != "" && strings.HasPrefix(template, "{")
		}
		operation := item.GetOperation(request.Method)
		if operation != nil && slices.EqualFunc(segments, strings.Split(path, "/"), matches) {
			return &routers.Route{Spec: d.spec, Path: path, PathItem: item, Method: request.Method, Operation: operation}
		}
	}
	return nil
}

// transportHeaders are those that HTTP itself adds.
var transportHeaders = []string{"Connection", "Content-Length", "Content-Type", "Date"}

const requestID = "X-Request-Id"

func (d *document) check(request *http.Request, status int, header http.Header, body []byte) error {
	route := d.route(request)
	if route == nil {
		return d.checkNoOperation(request, status, header, body)
	}
	reference := route.Operation.Responses.Value(fmt.Sprint(status))
	if reference == nil {
		return errors.New("no such status")
	}
	response := reference.Value
	if err := d.checkResponse(route, response, request, status, header, body); err != nil {
		return err
	}
	if status >= 400 {
		return checkError(response.Content.Get("application/json").Examples, header, body)
	}
	return nil
}

// checkResponse holds headers and body against a response of the document.
func (d *document) checkResponse(
	route *routers.Route, response *openapi3.Response, request *http.Request, status int, header http.Header, body []byte,
) error {
	if err := checkHeaders(response, header, body); err != nil {
		return err
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, Route: route},
		Status:                 status,
		Header:                 header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(body)
	return openapi3filter.ValidateResponse(context.Background(), input)
}

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
	for documented := range response.Content { // there is one
		want = documented
	}
	if want == "" && len(body) > 0 {
		return fmt.Errorf("a body of %d bytes is not documented", len(body))
	}
	if contentType != want {
		return fmt.Errorf("Content-Type is %q, not %q", contentType, want)
	}
	return nil
}

// failure is an error in either shape, without the request's id.
type failure struct {
	oauthCode, oauthText       string
	activityCode, activityText string
	requestID                  string
}

func parseFailure(body []byte) (failure, error) {
	var fields struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
		RequestID   string          `json:"request_id"`
	}
	if err := strictly(body, &fields); err != nil {
		return failure{}, err
	}
	var code string
	if json.Unmarshal(fields.Error, &code) == nil {
		return failure{oauthCode: code, oauthText: fields.Description}, nil
	}
	var detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	err := strictly(fields.Error, &detail)
	return failure{activityCode: detail.Code, activityText: detail.Message, requestID: fields.RequestID}, err
}

func strictly(text []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}

// checkError wants the error to be one of the documented examples (specification 7: codes and messages are fixed), and
// the headers to say whether the request was counted (specification 8).
func checkError(examples openapi3.Examples, header http.Header, body []byte) error {
	got, err := parseFailure(body)
	if err != nil {
		return err
	}
	known := false
	for _, example := range examples {
		text, err := json.Marshal(example.Value.Value)
		if err != nil {
			return err
		}
		want, err := parseFailure(text)
		if err != nil {
			return err
		}
		want.requestID = got.requestID
		known = known || got == want
	}
	if !known {
		return fmt.Errorf("the error %s is none of the examples", body)
	}
	if got.requestID != header.Get(requestID) {
		return fmt.Errorf("request_id is %q, but %s is %q", got.requestID, requestID, header.Get(requestID))
	}
	switch counted := header.Get("RateLimit-Limit") != ""; got.activityCode {
	case "invalid_request":
		if counted {
			return errors.New("a malformed request has RateLimit headers")
		}
	case "invalid_date_range", "invalid_cursor":
		if !counted {
			return errors.New("a counted request has no RateLimit headers")
		}
	}
	return nil
}

// checkNoOperation holds the answer to what is no operation against decisions, section 2.
func (d *document) checkNoOperation(request *http.Request, status int, header http.Header, body []byte) error {
	var want *openapi3.Response
	path := request.URL.Path
	switch {
	case strings.HasPrefix(path, "/connect-svc/v1/grants/"):
		want = d.spec.Components.Responses["NotFound"].Value
	case strings.HasPrefix(path, "/connect-svc/"), strings.HasPrefix(path, "/oauth/") && path != "/oauth/authorize",
		path == "/.well-known/oauth-authorization-server":
		want = d.spec.Components.Responses["DisconnectBadRequest"].Value
	default:
		return nil // a page
	}
	if status != http.StatusNotFound {
		return errors.New("this is no operation, so it must be 404")
	}
	for name, reference := range want.Headers {
		value := header.Get(name)
		if value == "" {
			return fmt.Errorf("header %s is missing", name)
		}
		if err := reference.Value.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	if request.Method == http.MethodHead {
		return nil
	}
	if err := checkHeaders(want, header, body); err != nil {
		return err
	}
	return checkError(want.Content.Get("application/json").Examples, header, body)
}
