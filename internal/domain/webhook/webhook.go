package webhook

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// Settings of the webhooks, which the operator decides.
type Settings struct {
	// Window is how long changes of activity are merged into one event of a connection.
	Window time.Duration `setting:"" type:"1s to 1h" default:"60s" name:"activity-updated-window" help:"Changes within this time are merged into one activity.updated per connection, 1s to 1h."`
	// AllowedNetworks may be reached although they are private, loopback or special. For development.
	AllowedNetworks []netip.Prefix `setting:"" type:"networks" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`
	// RootCAs sign the certificates of receivers; nil: the system's.
	RootCAs *x509.CertPool `kong:"-"`
	// Transport wraps the transport that sends events; nil: it is used unchanged.
	Transport func(http.RoundTripper) http.RoundTripper `kong:"-"`
	// Settled is called with the client of each event that this server delivered, or gave up. It must not block. Nil: nothing is called.
	Settled func(clientID uuid.UUID, delivered bool) `kong:"-"`
	// Trace gives a delivery a span, whose end is called with whether it failed. Nil: none has one.
	Trace  func(ctx context.Context, name string) (_ context.Context, end func(failed bool)) `kong:"-"`
	Random io.Reader                                                                         `kong:"-"` // source of signing secrets; nil: crypto/rand
	Limits work.Limits                                                                       `kong:"-"` // of claims and requests; the zero value is work.DefaultLimits
	Logger *slog.Logger                                                                      `kong:"-"` // nil: no log
}

// Webhooks manages and delivers the webhooks of all clients in a database.
type Webhooks struct {
	pool    *postgres.Pool
	queries *webhookdb.Queries
	lists   *webhookdb.Queries // planned for the filters that are given
	keys    *credential.Keyring
	random  io.Reader
	window  time.Duration
	logger  *slog.Logger
	limits  limits
	settled func(clientID uuid.UUID, delivered bool)
	trace   func(ctx context.Context, name string) (context.Context, func(failed bool))
	sender  *sender
	// slots are the database connections that deliveries may use at the same time: half of the pool, so that a burst of events does
	// not make requests wait.
	slots chan struct{}

	wake        chan struct{} // an event may have been written
	changed     chan struct{} // there are changes to merge
	maxInterval time.Duration // between polls; see the constant

	statsMu sync.Mutex
	stats   map[string]Stats // counted by this server, by client name
}

// New returns the webhooks of a migrated database. They manage endpoints and events and send samples at once, and deliver events
// while [Webhooks.Run] runs.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Webhooks {
	settings.Limits = settings.Limits.OrDefault()
	w := &Webhooks{
		pool:        pool,
		queries:     webhookdb.New(pool),
		lists:       webhookdb.New(postgres.Replanned{Pool: pool}),
		keys:        keys,
		random:      settings.Random,
		window:      settings.Window,
		logger:      settings.Logger,
		limits:      limits(settings.Limits),
		settled:     settings.Settled,
		trace:       settings.Trace,
		sender:      newSender(settings.AllowedNetworks, settings.RootCAs, settings.Limits.Webhook),
		slots:       make(chan struct{}, max(1, pool.MaxConns()/2)),
		wake:        make(chan struct{}, 1),
		changed:     make(chan struct{}, 1),
		maxInterval: maxInterval,
		stats:       map[string]Stats{},
	}
	if w.settled == nil {
		w.settled = func(uuid.UUID, bool) {}
	}
	if w.trace == nil {
		w.trace = func(ctx context.Context, _ string) (context.Context, func(bool)) { return ctx, func(bool) {} }
	}
	if w.random == nil {
		w.random = rand.Reader
	}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	if settings.Transport != nil {
		w.sender.client.Transport = settings.Transport(w.sender.client.Transport)
	}
	return w
}

// Errors of this package, beside those of [refusal].
var (
	ErrNoEndpoint    = errors.New("the client has no webhook")
	ErrStopped       = errors.New("the webhook was stopped because its receiver answered 410: set its URL again first")
	ErrReplacedSince = errors.New("the secret was replaced since")
	ErrNoEvent       = errors.New("no such event")
	ErrEventType     = errors.New("unknown type of event: the types are " + ConnectionRevoked + " and " + ActivityUpdated)
)

// Run delivers events and merges changes of activity until ctx ends, then gives the attempts in flight a few seconds. Any
// number of servers may run on one database. Call it once.
func (w *Webhooks) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { w.mergeChanges(ctx) })
	w.deliverDue(ctx)
	work.Wait()
	w.sender.client.CloseIdleConnections()
}

// Wake makes Run look for work at once. Call it after an act that may have written an event: without it, another process's event
// waits for up to a second on an idle server.
func (w *Webhooks) Wake() { signal(w.wake) }

// signal does not block. A signal that was not received yet stands for this one as well.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// inSlot runs a statement with one of the database connections that deliveries may use.
func inSlot[Params, Result any](
	ctx context.Context, w *Webhooks, statement func(context.Context, Params) (Result, error), params Params,
) (result Result, err error) {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
		return statement(ctx, params)
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// ofClient and ofEvent add to an error the client or event that it is about; nil stays nil.
func ofClient(id uuid.UUID, err error) error {
	return postgres.Wrap("webhook of client "+id.String(), err)
}
func ofEvent(id uuid.UUID, err error) error {
	return postgres.Wrap("webhook event "+id.String(), err)
}
