package contracttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// CheckWebhook is what is wrong with a call that a receiver of webhooks got, by the section webhooks of the document. It
// is nil when the call is as documented. The body of the request is not read.
func CheckWebhook(request *http.Request, body []byte) error {
	document, err := load()
	if err != nil {
		return err
	}
	var event struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return err
	}
	webhook := document.spec.Webhooks[event.Type]
	if webhook == nil || webhook.GetOperation(request.Method) == nil {
		return fmt.Errorf("there is no webhook %s %q", request.Method, event.Type)
	}
	checked := request.Clone(context.Background())
	checked.Body = io.NopCloser(bytes.NewReader(body))
	return openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
		Request: checked,
		Route: &routers.Route{
			Spec: document.spec, Path: event.Type, PathItem: webhook, Method: request.Method,
			Operation: webhook.GetOperation(request.Method),
		},
	})
}
