package webhook

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
)

// Settings are what the operator decides.
type Settings struct {
	// Window is for how long changes of activity are merged to one event of a connection.
	Window time.Duration
	// AllowedNetworks may be reached although they are private, loopback or special. For development.
	AllowedNetworks []netip.Prefix
	// RootCAs sign the certificates of receivers; nil: the system's.
	RootCAs *x509.CertPool
	// Transport wraps the transport that sends events; nil: it is used as it is.
	Transport func(http.RoundTripper) http.RoundTripper
	Logger    *slog.Logger // nil: no log
}

// Webhooks is the webhooks of all clients in a database.
type Webhooks struct {
	store
	keys   *credential.Keyring
	window time.Duration
	logger *slog.Logger
	limits limits
	sender *sender

	statsMu sync.Mutex
	stats   map[string]Stats // what this server counted, by client name
}

// New returns the webhooks of a migrated database. Until [Webhooks.Run] is called they manage endpoints and events and
// send samples, but deliver nothing.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Webhooks {
	w := &Webhooks{
		store:  newStore(pool),
		keys:   keys,
		window: settings.Window,
		logger: settings.Logger,
		limits: defaultLimits,
		sender: newSender(settings.AllowedNetworks, settings.RootCAs, defaultLimits.send),
		stats:  map[string]Stats{},
	}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	if settings.Transport != nil {
		w.sender.client.Transport = settings.Transport(w.sender.client.Transport)
	}
	return w
}

// Errors of this package, next to *URLError.
var (
	ErrClientNotFound   = errors.New("no such client")
	ErrClientOffboarded = errors.New("the client was offboarded")
	ErrNoEndpoint       = errors.New("the client has no webhook")
	ErrStopped          = errors.New("the webhook was stopped because its receiver answered 410: set its URL again first")
	ErrReplacedSince    = errors.New("the secret was replaced since")
	ErrNoEvent          = errors.New("no such event")
	ErrEventType        = errors.New("no such type of event: there are " + ConnectionRevoked + " and " + ActivityUpdated)
)

// URLError says what is wrong with the URL of a receiver. It does not hold the URL.
type URLError struct{ Problem string }

func (e *URLError) Error() string { return "webhook URL: " + e.Problem }

// maxURL bounds the length of a receiver's URL in characters.
const maxURL = 2048

// ValidateURL reports whether events can be sent to a URL: https, with a host, without user information and fragment, up
// to 2,048 visible ASCII characters. The address behind its name is checked at each connection. The error is a *URLError.
func ValidateURL(text string) error {
	_, err := parseURL(text)
	return err
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &URLError{"must be up to " + strconv.Itoa(maxURL) + " visible ASCII characters"}
	}
	parsed, err := url.Parse(text)
	if err != nil || !strings.HasPrefix(text, "https://") || parsed.Hostname() == "" {
		return nil, &URLError{"must be an https URL such as https://partner.example/webhooks"}
	}
	if parsed.User != nil || strings.Contains(text, "#") {
		return nil, &URLError{"must have no user, password or fragment"}
	}
	if port := parsed.Port(); port != "" || strings.HasSuffix(parsed.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, &URLError{"must have a port from 1 to 65535, or none"}
		}
	}
	return parsed, nil
}

// Endpoint is where a client's events are sent.
type Endpoint struct {
	ClientID  uuid.UUID
	URL       string
	CreatedAt time.Time
	// StoppedAt is when the receiver answered 410 Gone; since then nothing is sent. Zero: it was not stopped.
	StoppedAt time.Time
	// RotatingUntil is when the previous secret stops signing beside the current one. Zero: one secret signs.
	RotatingUntil time.Time
}

// SetEndpoint sets where a client's events are sent. The first call makes the signing secret, `whsec_…`, which cannot be
// shown again. Later calls keep the secret, return "", and start an endpoint that was stopped. Errors: *URLError,
// ErrClientNotFound, ErrClientOffboarded.
func (w *Webhooks) SetEndpoint(ctx context.Context, clientID uuid.UUID, url string) (secret string, err error) {
	var key [32]byte
	rand.Read(key[:])
	return w.SetEndpointAs(ctx, clientID, url, key)
}

// SetEndpointAs is [Webhooks.SetEndpoint] with the key of a new endpoint's secret, which the sandbox repeats.
func (w *Webhooks) SetEndpointAs(ctx context.Context, clientID uuid.UUID, url string, key [32]byte) (secret string, err error) {
	parsed, err := parseURL(url)
	if err != nil {
		return "", err
	}
	secret, sealed, err := w.secretOf(key)
	if err != nil {
		return "", err
	}
	created, err := w.setEndpoint(ctx, clientID, url, parsed.Hostname(), sealed)
	if err != nil || !created {
		return "", ofClient(clientID, err)
	}
	return secret, nil
}

// Endpoint is where a client's events are sent. Errors: ErrNoEndpoint.
func (w *Webhooks) Endpoint(ctx context.Context, clientID uuid.UUID) (Endpoint, error) {
	target, err := w.target(ctx, clientID)
	return target.Endpoint, err
}
