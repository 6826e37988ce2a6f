package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
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

func (r *recent[T]) add(item T) { r.list = append(r.list[max(0, len(r.list)-kept+1):], item) }

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
	if s.config.Sent != nil {
		s.config.Sent(sent, attempt)
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
	plain   *http.Transport // to receivers without TLS
}

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	duplicate, answered := r.sandbox.disturbances.meet(request.Context(), r.sandbox.config.Limits.Webhook*3/5)
	defer answered()
	response, err := r.try(request)
	if err != nil || !duplicate {
		return response, err
	}
	_ = response.Body.Close()
	return r.try(request)
}

// try sends a webhook once, and lists it.
func (r recorder) try(request *http.Request) (*http.Response, error) {
	fresh, err := request.GetBody()
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(fresh)
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Body = io.NopCloser(bytes.NewReader(body))
	attempt := sandboxapi.Try{At: instant(r.sandbox.clock.Now())}
	response, err := r.send(request)
	if err == nil {
		attempt.Status = &response.StatusCode
	}
	r.sandbox.record(request.Header, body, attempt)
	return response, err
}

// disturbances are what the next webhooks suffer.
type disturbances struct {
	mu                 sync.Mutex
	duplicate, reorder int           // how many
	held               chan struct{} // closed when the webhook after the held one was answered; nil: none is held
}

// meet returns whether a webhook is sent twice. If it comes after the next one, meet returns when that was answered, when most has
// passed, or when ctx ends. The caller calls answered at the end.
func (d *disturbances) meet(ctx context.Context, most time.Duration) (duplicate bool, answered func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.duplicate > 0 {
		d.duplicate--
		duplicate = true
	}
	if gate := d.held; gate != nil { // it waits for this one
		d.held = nil
		return duplicate, func() { close(gate) }
	}
	if d.reorder == 0 {
		return duplicate, func() {}
	}
	d.reorder--
	gate := make(chan struct{})
	d.held = gate
	d.mu.Unlock()
	select {
	case <-gate:
	case <-time.After(most):
	case <-ctx.Done():
	}
	d.mu.Lock()
	if d.held == gate {
		d.held = nil
	}
	return duplicate, func() {}
}

// DisturbDeliveries duplicates or reorders the next webhooks.
func (d driver) DisturbDeliveries(
	ctx context.Context, request sandboxapi.DisturbDeliveriesRequestObject,
) (sandboxapi.DisturbDeliveriesResponseObject, error) {
	d.disturbances.mu.Lock()
	defer d.disturbances.mu.Unlock()
	counted := &d.disturbances.duplicate
	if request.Body.Fault == sandboxapi.DisturbanceFaultReorder {
		counted = &d.disturbances.reorder
	}
	*counted += int(or(request.Body.Times, 1))
	return sandboxapi.DisturbDeliveries204Response{}, nil
}

// ResendWebhook sends an event again, as an operator does.
func (d driver) ResendWebhook(ctx context.Context, request sandboxapi.ResendWebhookRequestObject) (sandboxapi.ResendWebhookResponseObject, error) {
	id, err := webhook.ParseEventID(request.WebhookId)
	if err != nil {
		return nil, err
	}
	return sandboxapi.ResendWebhook204Response{}, d.service.Webhooks.Replay(ctx, id)
}

// CloseIdleConnections closes the idle connections of the network, for http.Client.
func (r recorder) CloseIdleConnections() {
	r.plain.CloseIdleConnections()
	if network, ok := r.network.(*http.Transport); ok {
		network.CloseIdleConnections()
	}
}

// ListWebhooks lists the sent webhooks.
func (d driver) ListWebhooks(ctx context.Context, _ sandboxapi.ListWebhooksRequestObject) (sandboxapi.ListWebhooksResponseObject, error) {
	return sandboxapi.ListWebhooks200JSONResponse{Data: d.sent.newestFirst()}, nil
}

// SetWebhook changes the URL of the receiver.
func (d driver) SetWebhook(ctx context.Context, request sandboxapi.SetWebhookRequestObject) (sandboxapi.SetWebhookResponseObject, error) {
	url, id := request.Body.Url, or(request.Body.ClientId, d.clients.all()[0].ClientId)
	if err := CheckReceiver(url); err != nil {
		return nil, err
	}
	return sandboxapi.SetWebhook204Response{}, d.changeClient(ctx, id, func(partner *sandboxapi.SandboxClient) error {
		secret, err := d.service.Webhooks.SetEndpoint(ctx, id, d.endpoint(id, url))
		partner.WebhookUrl, partner.WebhookSecret = url, cmp.Or(secret, partner.WebhookSecret)
		return err
	})
}

// A sandbox also sends webhooks by plain HTTP to receivers on this machine. The service itself knows no such URL: such a client has
// a path of the receiver inside the sandbox as its endpoint, and the recorder sends to the client's receiver instead.

// CheckReceiver reports whether webhooks can be sent to a URL: one that the service accepts, or one that begins with http:// and whose
// host is localhost or a loopback address. Error: refusal.Field of url, without the URL.
func CheckReceiver(receiver string) error {
	rest, plain := strings.CutPrefix(receiver, "http://")
	if !plain {
		return webhook.ValidateURL(receiver)
	}
	if err := webhook.ValidateURL("https://" + rest); err != nil {
		return err
	}
	if parsed, err := url.Parse(receiver); err == nil {
		address, err := netip.ParseAddr(parsed.Hostname())
		if parsed.Hostname() == "localhost" || err == nil && address.IsLoopback() && address.Zone() == "" {
			return nil
		}
	}
	return refusal.Field{Path: "url", Problem: "must be an https URL, or an http URL of localhost or a loopback address"}
}

func (s *sandbox) receiverURL(path string) string {
	return "https://" + s.receiver.Addr().String() + "/" + path
}

// endpoint returns the URL that the service has for a client's receiver.
func (s *sandbox) endpoint(client uuid.UUID, receiver string) string {
	if strings.HasPrefix(receiver, "http://") {
		return s.receiverURL(client.String())
	}
	return receiver
}

var errNotLoopback = errors.New("not a loopback address")

// newPlain returns a transport that reaches only this machine, whatever a name leads to.
func newPlain() *http.Transport {
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().IsLoopback() {
			return errNotLoopback
		}
		return nil
	}}
	return &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10}
}

func (r recorder) send(request *http.Request) (*http.Response, error) {
	id, _ := uuid.Parse(strings.TrimPrefix(request.URL.Path, "/")) // of no client where it fails
	client, _ := r.sandbox.clients.get(id)
	if !strings.HasPrefix(client.WebhookUrl, "http://") || request.URL.String() != r.sandbox.endpoint(id, client.WebhookUrl) {
		return r.network.RoundTrip(request)
	}
	receiver, err := url.Parse(client.WebhookUrl)
	if err != nil {
		return nil, err
	}
	moved := request.Clone(request.Context())
	moved.URL, moved.Host = receiver, ""
	return r.plain.RoundTrip(moved)
}

// receive is the receiver inside the sandbox. The recorder lists its webhooks. Those for another receiver, whose address has just
// changed, are tried again.
func receive(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/webhooks" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
