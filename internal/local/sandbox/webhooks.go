package sandbox

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"connect-svc/gen/sandboxapi"
)

const (
	kept         = 1000 // webhooks, and requests
	keptAttempts = 100  // of each webhook
)

// recent lists what happened last. The caller of add holds mu.
type recent[T any] struct {
	mu   sync.Mutex
	list []T // oldest first
}

func (r *recent[T]) add(one T) { r.list = append(r.list[max(0, len(r.list)-kept+1):], one) }

func (r *recent[T]) newestFirst() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := append([]T{}, r.list...) // never null in JSON
	slices.Reverse(list)
	return list
}

// record lists an attempt to send a webhook.
func (s *sandbox) record(header http.Header, body []byte, attempt sandboxapi.Try) {
	var event struct {
		Type sandboxapi.WebhookType `json:"type"`
	}
	_ = json.Unmarshal(body, &event) // the service wrote it
	sent := sandboxapi.Webhook{
		Id: header.Get("Webhook-Id"), Type: event.Type, Headers: map[string]string{}, Body: string(body),
	}
	for name, values := range header {
		if len(values) > 0 {
			sent.Headers[strings.ToLower(name)] = values[0]
		}
	}
	s.sent.mu.Lock()
	defer s.sent.mu.Unlock()
	i := slices.IndexFunc(s.sent.list, func(w sandboxapi.Webhook) bool { return w.Id == sent.Id })
	if i < 0 {
		sent.Tries = []sandboxapi.Try{attempt}
		s.sent.add(sent)
		return
	}
	before := s.sent.list[i].Tries
	sent.Tries = append(slices.Clone(before[max(0, len(before)-keptAttempts+1):]), attempt)
	s.sent.list[i] = sent
}

// recorder lists the webhooks that the service sends over the network.
type recorder struct {
	sandbox *sandbox
	network http.RoundTripper
}

func (s *sandbox) recording(network http.RoundTripper) http.RoundTripper { return recorder{s, network} }

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	copied, err := request.GetBody()
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(copied)
	if err != nil {
		return nil, err
	}
	attempt := sandboxapi.Try{At: instant(r.sandbox.clock.Now())}
	response, err := r.network.RoundTrip(request)
	if err == nil {
		attempt.Status = &response.StatusCode
	}
	r.sandbox.record(request.Header, body, attempt)
	return response, err
}

// CloseIdleConnections closes the idle connections of the network, for http.Client.
func (r recorder) CloseIdleConnections() {
	if network, is := r.network.(*http.Transport); is {
		network.CloseIdleConnections()
	}
}

// receive is the receiver inside the sandbox. The recorder lists its webhooks.
func receive(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// ListWebhooks lists the sent webhooks.
func (d driver) ListWebhooks(
	ctx context.Context, _ sandboxapi.ListWebhooksRequestObject,
) (sandboxapi.ListWebhooksResponseObject, error) {
	return sandboxapi.ListWebhooks200JSONResponse{Data: d.sent.newestFirst()}, nil
}

// SetWebhook changes the URL of the receiver.
func (d driver) SetWebhook(
	ctx context.Context, request sandboxapi.SetWebhookRequestObject,
) (sandboxapi.SetWebhookResponseObject, error) {
	_, err := d.service.Webhooks.SetEndpoint(ctx, d.client.ID, request.Body.Url)
	return sandboxapi.SetWebhook204Response{}, err
}
