package contracttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"connect-svc/gen/operatorapi"
	"connect-svc/gen/sandboxapi"
)

var loadOperator = sync.OnceValues(func() (*document, error) {
	spec, err := operatorapi.GetSpec()
	if err != nil {
		return nil, err
	}
	return &document{spec: spec}, spec.Validate(context.Background())
})

var loadSandbox = sync.OnceValues(func() (*document, error) {
	spec, err := sandboxapi.GetSpec()
	if err != nil {
		return nil, err
	}
	return &document{spec: spec}, spec.Validate(context.Background())
})

// checkOperator holds an answer of the operator API against its document. What is no operation is 401, or 404 with the
// token.
func (d *document) checkOperator(request *http.Request, status int, header http.Header, body []byte) error {
	return d.checkProblems(request, status, header, body, map[int]string{401: "Unauthorized", 404: "UserNotFound"})
}

// checkSandbox holds an answer of the sandbox's driver against its document. What is no operation is 404.
func (d *document) checkSandbox(request *http.Request, status int, header http.Header, body []byte) error {
	return d.checkProblems(request, status, header, body, map[int]string{404: "UserNotFound"})
}

// checkProblems holds an answer of an API whose errors are problem details against its document. No operation answers as
// the response of the document that is named for the status, which has that problem among its examples.
func (d *document) checkProblems(
	request *http.Request, status int, header http.Header, body []byte, noOperation map[int]string,
) error {
	route := d.route(request)
	if route == nil {
		want := d.spec.Components.Responses[noOperation[status]]
		switch {
		case want == nil:
			return fmt.Errorf("this is no operation, so it must be one of %v", slices.Sorted(maps.Keys(noOperation)))
		case request.Method == http.MethodHead:
			return nil
		}
		if err := checkHeaders(want.Value, header, body); err != nil {
			return err
		}
		return checkProblem(want.Value, status, header, body)
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
		return checkProblem(response, status, header, body)
	}
	return nil
}

// problem is an error of these APIs as far as the document fixes it.
type problem struct {
	Type, Title string
	Status      int
}

// checkProblem wants the problem to be one of the documented examples, for this status, with the id of the header.
func checkProblem(response *openapi3.Response, status int, header http.Header, body []byte) error {
	var got struct {
		problem
		RequestID string          `json:"request_id"`
		Errors    json.RawMessage `json:"errors"`
	}
	if err := strictly(body, &got); err != nil {
		return err
	}
	known := false
	for _, example := range response.Content.Get("application/problem+json").Examples {
		text, err := json.Marshal(example.Value.Value)
		if err != nil {
			return err
		}
		var want problem
		if err := json.Unmarshal(text, &want); err != nil {
			return err
		}
		known = known || got.problem == want
	}
	switch {
	case !known:
		return fmt.Errorf("the problem %s is none of the examples", body)
	case got.Status != status:
		return fmt.Errorf("the problem says status %d", got.Status)
	case got.RequestID != header.Get(requestID):
		return fmt.Errorf("request_id is %q, but %s is %q", got.RequestID, requestID, header.Get(requestID))
	case (got.Errors != nil) != (status == http.StatusUnprocessableEntity):
		return errors.New("errors stand with 422, and nowhere else")
	}
	return nil
}
