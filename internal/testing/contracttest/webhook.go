package contracttest

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
)

// CheckWebhook is nil when a request that a receiver of webhooks got is as the document says under webhooks. It does not
// read the body of the request.
func CheckWebhook(request *http.Request, body []byte) error {
	document := Partner()
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
	operation := webhook.GetOperation(request.Method)
	sent := &openapi3.Response{Headers: openapi3.Headers{}, Content: operation.RequestBody.Value.Content}
	for _, parameter := range operation.Parameters {
		sent.Headers[parameter.Value.Name] = &openapi3.HeaderRef{Value: &openapi3.Header{Parameter: *parameter.Value}}
	}
	if contentType := request.Header.Get("Content-Type"); sent.Content[contentType] == nil {
		return fmt.Errorf("Content-Type is %q", contentType)
	}
	return document.checkSchemas(sent, request.Header, body)
}
