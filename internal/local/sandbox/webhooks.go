package sandbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/webhook"
)

const (
	keptWebhooks = 1000
	keptTries    = 100 // of each of them
)

// outbox is what was sent, oldest first.
type outbox struct {
	mu   sync.Mutex
	list []sandboxapi.Webhook
}

// add notes a try.
func (o *outbox) add(header http.Header, body []byte, try sandboxapi.Try) {
	var event struct {
		Type sandboxapi.WebhookType `json:"type"`
	}
	_ = json.Unmarshal(body, &event) // it is what the service wrote
	sent := sandboxapi.Webhook{
		Id: header.Get("Webhook-Id"), Type: event.Type, Headers: map[string]string{}, Body: string(body),
	}
	for name, values := range header {
		if len(values) > 0 {
			sent.Headers[strings.ToLower(name)] = values[0]
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.list, func(w sandboxapi.Webhook) bool { return w.Id == sent.Id })
	if i < 0 {
		sent.Tries = []sandboxapi.Try{try}
		o.list = append(o.list[max(0, len(o.list)-keptWebhooks+1):], sent)
		return
	}
	before := o.list[i].Tries
	sent.Tries = append(slices.Clone(before[max(0, len(before)-keptTries+1):]), try)
	o.list[i] = sent
}

func (o *outbox) newestFirst() []sandboxapi.Webhook {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]sandboxapi.Webhook, len(o.list)) // never null in JSON
	for i, sent := range o.list {
		list[len(list)-1-i] = sent
	}
	return list
}

// recorder stands between what the service sends and the network.
type recorder struct {
	sandbox *sandbox
	network http.RoundTripper
}

func (s *sandbox) recording(network http.RoundTripper) http.RoundTripper { return recorder{s, network} }

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	_ = request.Body.Close() // it was memory
	if err != nil {
		return nil, err
	}
	try := sandboxapi.Try{At: instant(r.sandbox.clock.Now())}
	passed := request.Clone(request.Context())
	passed.Body = io.NopCloser(bytes.NewReader(body))
	answer, err := r.network.RoundTrip(passed)
	if err == nil {
		try.Status = &answer.StatusCode
	}
	r.sandbox.sent.add(request.Header, body, try)
	return answer, err
}

// CloseIdleConnections is what http.Client asks of its transport.
func (r recorder) CloseIdleConnections() {
	if network, is := r.network.(*http.Transport); is {
		network.CloseIdleConnections()
	}
}

// receive is the receiver inside the sandbox. What it gets has been noted before.
func receive(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// ListWebhooks shows what was sent.
func (d driver) ListWebhooks(
	ctx context.Context, _ sandboxapi.ListWebhooksRequestObject,
) (sandboxapi.ListWebhooksResponseObject, error) {
	return sandboxapi.ListWebhooks200JSONResponse{
		Body:    sandboxapi.Webhooks{Data: d.sent.newestFirst()},
		Headers: sandboxapi.ListWebhooks200ResponseHeaders(okHeaders(ctx)),
	}, nil
}

// SetWebhook sends webhooks elsewhere.
func (d driver) SetWebhook(
	ctx context.Context, request sandboxapi.SetWebhookRequestObject,
) (sandboxapi.SetWebhookResponseObject, error) {
	_, err := d.service.Webhooks.SetEndpoint(ctx, d.client.ID, request.Body.Url)
	if invalid := (*webhook.URLError)(nil); errors.As(err, &invalid) {
		return nil, contract.Field(invalid.Problem, "url")
	}
	if err != nil {
		return nil, err
	}
	return sandboxapi.SetWebhook204Response{Headers: sandboxapi.SetWebhook204ResponseHeaders(okHeaders(ctx))}, nil
}

// serve is an HTTP server of the sandbox's own, until ctx ends. Its answers are short: nobody waits for them.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, certificate *tls.Certificate, logger *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      15 * time.Second,
		ErrorLog:          telemetry.ServerErrors(logger),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}})
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
