// Package webhook sends partners the events of specification section 6: a connection ended, or activity changed. It sends the operator's app
// events of its own: a connection began or ended ([Operator]). It owns each receiver's endpoint, the log of events and delivery attempts, signing, delivery and replay.
//
// # The life of an event
//
// The statement or transaction that ends a connection also inserts the event's row. The statements that write activity record
// their changes, and [Webhooks.Run] merges these into one event per connection when the window is over. A server asks
// for events that are due, leases them, sends them, and records each attempt, the event's next state and the end of the
// lease in one statement. All rows of an event are where its user is, so an attempt needs one node of a cluster.
//
// # Invariants
//
//   - A server without work takes no lock and writes nothing (TestIdlePollWritesNothing). An event leaves at once if its process calls
//     [Webhooks.Wake] (TestWake). A look costs what there is to send, not what waits (TestLookCostsWhatIsDue).
//   - Of two servers that find the same work at the same time one does it (TestClaimOfTwoServers, TestMergeOfTwoServers).
//   - Nothing is sent to a paused webhook, whose events cost a look one step of an index (TestPause, TestLookCostsWhatIsDue).
//   - Events that programs of 1.0.0 queued are sent, until 1.3.0 (TestQueueOfOlderPrograms).
//   - Every attempt to deliver an event has the same webhook-id and body (TestSchedule).
//   - An event whose server was killed is sent by another one when the lease ends (TestLeaseOfAServerThatWasKilled).
//   - A leased event is not leased again before its lease ends, which outlasts every attempt (TestClaim).
//   - A server has a bounded number of attempts to one client in flight, so that a hanging receiver delays no other client's events
//     (TestBurstWithHangingReceivers).
//   - Addresses are checked when they are dialed, after DNS, so that an event reaches nothing inside the operator's networks that the
//     operator did not allow (TestAddressesThatAreRefused).
//   - Redirects are not followed, and a response is read up to a limit of time and size (TestAnswers).
//   - Signing secrets are sealed in the database and opened only to sign. The log holds no secret, URL, body or response
//     (TestLogHoldsNothingSensitive).
//
// This package never waits inside the transactions of other domains, and decides nothing about connections.
package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Settings of the webhooks, which the operator decides.
type Settings struct {
	// Window is how long changes of activity are merged into one event of a connection.
	Window time.Duration `setting:"" type:"1s to 1h" default:"60s" name:"activity-updated-window" help:"Changes within this time are merged into one activity.updated per connection, 1s to 1h."`
	// ReplicaLag is the maximum age of what a read replica answers. An event tells only of older changes, which every read finds. 0: no replica.
	ReplicaLag time.Duration `kong:"-"`
	// AllowedNetworks may be reached although they are private, loopback or special. For development.
	AllowedNetworks []netip.Prefix `setting:"" type:"networks" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`
	// OwnNetworks may be reached, too, by the operator's own webhook.
	OwnNetworks []netip.Prefix `setting:"" type:"networks" name:"operator-webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that the operator's own webhook may reach, too."`
	// RootCAs sign the certificates of receivers; nil: the system's.
	RootCAs *x509.CertPool `kong:"-"`
	// Transport wraps the transport that sends events; nil: it is used unchanged.
	Transport func(http.RoundTripper) http.RoundTripper `kong:"-"`
	// Settled is called with the client of each event that this server delivered, or gave up. It must not block. Nil: nothing is called.
	Settled func(clientID uuid.UUID, delivered bool) `kong:"-"`
	// Costly makes an act on a client, by its action in the audit log, if its budget of an hour allows it. Nil: it is made in any case.
	Costly func(ctx context.Context, clientID uuid.UUID, action string, act func(pgx.Tx) error) error `kong:"-"`
	// Trace gives a delivery a span, whose end is called with whether it failed. Nil: none has one.
	Trace  func(ctx context.Context, name string) (_ context.Context, end func(failed bool)) `kong:"-"`
	Random io.Reader                                                                         `kong:"-"` // source of signing secrets; nil: crypto/rand
	Limits work.Limits                                                                       `kong:"-"` // of claims and requests; the zero value is work.DefaultLimits
	Logger *slog.Logger                                                                      `kong:"-"` // nil: no log
}

// Operator stands for the service's operator where webhooks and events name a client: operator_id of the database. It has no row in clients.
var Operator = uuid.Max

// Webhooks manages and delivers the webhooks of all clients in a database.
type Webhooks struct {
	pool    *postgres.Pool
	queries *webhookdb.Queries
	lists   *webhookdb.Queries // planned for the filters that are given
	keys    *credential.Keyring
	random  io.Reader
	window  time.Duration // after which changes are merged, with lag
	lag     time.Duration // of the read replicas
	counted int32         // events that wait are counted up to here
	logger  *slog.Logger
	limits  work.Limits
	settled func(clientID uuid.UUID, delivered bool)
	costly  func(ctx context.Context, clientID uuid.UUID, action string, act func(pgx.Tx) error) error
	trace   func(ctx context.Context, name string) (context.Context, func(failed bool))
	sender  *sender // to clients
	own     *sender // to the operator
	// slots are the database connections that deliveries may use at the same time: half of the pool, so that a burst of events does
	// not make requests wait.
	slots chan struct{}

	wake        work.Signal   // an event may have been written
	changed     work.Signal   // there are changes to merge
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
		random:      cmp.Or(settings.Random, rand.Reader),
		window:      settings.Window + settings.ReplicaLag,
		lag:         settings.ReplicaLag,
		counted:     1_000_000,
		logger:      cmp.Or(settings.Logger, slog.New(slog.DiscardHandler)),
		limits:      settings.Limits,
		settled:     settings.Settled,
		costly:      settings.Costly,
		trace:       settings.Trace,
		sender:      newSender(settings.AllowedNetworks, settings.RootCAs, settings.Limits.Webhook),
		own:         newSender(slices.Concat(settings.AllowedNetworks, settings.OwnNetworks), settings.RootCAs, settings.Limits.Webhook),
		slots:       make(chan struct{}, max(1, pool.MaxConns()/2)),
		wake:        make(work.Signal, 1),
		changed:     make(work.Signal, 1),
		maxInterval: maxInterval,
		stats:       map[string]Stats{},
	}
	if w.settled == nil {
		w.settled = func(uuid.UUID, bool) {}
	}
	if w.costly == nil {
		w.costly = func(ctx context.Context, _ uuid.UUID, _ string, act func(pgx.Tx) error) error {
			return postgres.InTxAgain(ctx, pool, act)
		}
	}
	if w.trace == nil {
		w.trace = func(ctx context.Context, _ string) (context.Context, func(bool)) { return ctx, func(bool) {} }
	}
	if settings.Transport != nil {
		w.sender.client.Transport = settings.Transport(w.sender.client.Transport)
		w.own.client.Transport = settings.Transport(w.own.client.Transport)
	}
	return w
}

// Errors of this package, beside those of [refusal].
var (
	ErrNoEndpoint    = errors.New("the client has no webhook")
	ErrStopped       = errors.New("the webhook was stopped because its receiver answered 410: set its URL again first")
	ErrReplacedSince = errors.New("the secret was replaced since")
	ErrNoEvent       = errors.New("no such event")
	// ErrEventType is the error of a type that the receiver does not get.
	ErrEventType error = refusal.Field{Path: "type", Problem: "must be " + ConnectionRevoked + " or " + ActivityUpdated +
		" for a client, and " + ConnectionAuthorized + " or " + ConnectionEnded + " for the operator"}
)

// Run delivers events and merges changes of activity until ctx ends, then gives the attempts in flight a few seconds. Any
// number of servers may run on one database. Call it once.
func (w *Webhooks) Run(ctx context.Context) {
	var merging sync.WaitGroup
	merging.Go(func() { w.mergeChanges(ctx) })
	w.leases().Run(ctx)
	merging.Wait()
	w.sender.client.CloseIdleConnections()
	w.own.client.CloseIdleConnections()
}

// Wake makes Run look for work at once. Call it after an act that may have written an event: without it, another process's event
// waits for up to a second on an idle server.
func (w *Webhooks) Wake() { w.wake.Send() }

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

// Sweep deletes the events that had settled 30 days before that time, with their attempts. Before, it brings what
// is in webhook_queue, and fails what has waited too long for paused webhooks. Each statement reads a part (TestSweepWhileReceiversAreDown).
func (w *Webhooks) Sweep(ctx context.Context, before time.Time) error {
	const batch = 2000
	failure := cmp.Or(postgres.Wrap("bring queued webhook events", w.bringQueued(ctx)), w.failPaused(ctx, before))
	for part := (webhookdb.SweepWebhookEventsParams{Before: before.Add(-30 * 24 * time.Hour), MaxRows: batch}); ; {
		last, err := w.queries.SweepWebhookEvents(ctx, part)
		if err != nil || last.Read < batch {
			return cmp.Or(failure, postgres.Wrap("sweep webhook events", postgres.NoRowsAs(err, nil)))
		}
		part.AfterTime, part.AfterID = last.CreatedAt, last.EventID
	}
}

// bringQueued has the events of webhook_queue wait in their own rows.
//
// until 1.3.0: programs of 1.0.0 put them there, and other servers may still be such programs.
func (w *Webhooks) bringQueued(ctx context.Context) error {
	const batch = 100
	for {
		n := 0
		err := postgres.InTx(ctx, w.pool, func(tx pgx.Tx) error {
			queries := w.queries.WithTx(tx)
			rows, err := queries.TakeQueuedWebhookEvents(ctx, batch)
			for n = 0; err == nil && n < len(rows); n++ {
				err = queries.BringQueuedWebhookEvent(ctx, webhookdb.BringQueuedWebhookEventParams{
					UserID: rows[n].UserID, EventID: rows[n].EventID, DueAt: rows[n].NextAttemptAt,
				})
			}
			return err
		})
		if err != nil || n < batch {
			return err
		}
	}
}
