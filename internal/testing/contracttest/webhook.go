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

// CheckWebhook is nil when a request that a receiver of webhooks got is as the document says under webhooks. It does not
// read the body of the request.
func CheckWebhook(request *http.Request, body []byte) error {
	document, err := Partner()
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
