package sandbox

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/refusal"
)

// A sandbox also sends webhooks by plain HTTP to receivers on this machine. The service itself knows no such URL: such a client has
// a path of the receiver inside the sandbox as its endpoint, and the recorder sends to the client's receiver instead.

// CheckReceiver reports whether webhooks can be sent to a URL: one that the service accepts, or one that begins with http:// and whose
// host is localhost or a loopback address. Error: *refusal.FieldError of url, without the URL.
func CheckReceiver(receiver string) error {
	rest, plain := strings.CutPrefix(receiver, "http://")
	if !plain {
		return webhook.ValidateURL(receiver)
	}
	if err := webhook.ValidateURL("https://" + rest); err != nil {
		return err
	}
	parsed, err := url.Parse(receiver)
	if err != nil || !isLoopback(parsed.Hostname()) {
		return &refusal.FieldError{Field: "url", Problem: "must be an https URL, or an http URL of localhost or a loopback address"}
	}
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback() && address.Zone() == ""
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
