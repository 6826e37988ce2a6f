package contracttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Transport sends requests through base (nil is [http.DefaultTransport]) and reports to t what is wrong with the responses.
// It passes on the responses themselves as they are. It is safe for concurrent use.
func (c Contract) Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{t, base, c()}
}

type transport struct {
	t        testing.TB
	base     http.RoundTripper
	document *document
}

func (tr transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := tr.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if err := tr.document.check(request, response.StatusCode, response.Header, body); err != nil {
		tr.t.Errorf("%s %s: %d is not as documented: %v", request.Method, shorten(request.URL.Path), response.StatusCode, err)
	} else {
		tr.document.saw(request, response.StatusCode, body)
	}
	return response, nil
}

// Handler is next, and reports to t what is wrong with its responses, for clients in other processes. It holds each response
// back until it is whole.
func Handler(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := httptest.NewRecorder()
		next.ServeHTTP(response, r)
		if err := Partner.Check(r, response.Code, response.Result().Header, response.Body.Bytes()); err != nil {
			t.Errorf("%s %s: %d is not as documented: %v", r.Method, shorten(r.URL.Path), response.Code, err)
		}
		maps.Copy(w.Header(), response.Result().Header)
		w.WriteHeader(response.Code)
		_, _ = w.Write(response.Body.Bytes()) // fails only where nobody reads it any more
	})
}

// Check returns what [Contract.Transport] would report about a response, for tests that got it in another way. It counts for
// no coverage.
func (c Contract) Check(request *http.Request, status int, header http.Header, body []byte) error {
	return c().check(request, status, header, body)
}

func shorten(path string) string {
	if len(path) > 100 {
		path = path[:100] + "…"
	}
	return strings.ToValidUTF8(path, "?")
}

// CheckWebhook is nil when a request that a receiver of webhooks got is as one of the documents says under webhooks. It does not
// read the body of the request.
func CheckWebhook(request *http.Request, body []byte) error {
	var event struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return err
	}
	document := Partner()
	if document.spec.Webhooks[event.Type] == nil {
		document = Operator()
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
