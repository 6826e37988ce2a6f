package webhook

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// loopback are the networks of the receivers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// call is what a receiver got.
type call struct {
	id, signature string
	header        http.Header
	body          []byte
	at            time.Time
}

// receiver is a partner's HTTPS server. Each call that it gets is held against the document, and its signature is
// verified as the partner would.
type receiver struct {
	*httptest.Server
	busy   bool          // calls are not held against the document, which takes longer than to deliver them
	count  *atomic.Int64 // calls are counted and no more, where it is set
	mu     sync.Mutex
	secret string
	calls  []call
	got    chan call
}

// receive starts a receiver that answers as answer says; nil: 200 with no body.
func receive(t testing.TB, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{got: make(chan call, 10_000)}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Errorf("receiver: %v", err)
		}
		r.take(t, request, body)
		if answer != nil {
			answer(rw, request)
		}
	}))
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) take(t testing.TB, request *http.Request, body []byte) {
	t.Helper()
	if r.count != nil {
		r.count.Add(1)
		return
	}
	if !r.busy {
		if err := contracttest.CheckWebhook(request, body); err != nil {
			t.Errorf("a call is not as documented: %v", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secret != "" {
		verify(t, r.secret, request.Header, body)
	}
	c := call{request.Header.Get("webhook-id"), request.Header.Get("webhook-signature"), request.Header, body, time.Now()}
	r.calls = append(r.calls, c)
	r.got <- c
}

// verify is Standard Webhooks' own check. Its tolerance is left out: tests shift the clock.
func verify(t testing.TB, secret string, header http.Header, body []byte) {
	t.Helper()
	library, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := library.VerifyIgnoringTimestamp(body, header); err != nil {
		t.Errorf("a call is not verified: %v", err)
	}
}

func (r *receiver) all() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call(nil), r.calls...)
}

// next waits for a call.
func (r *receiver) next(t testing.TB) call {
	t.Helper()
	return wait.For(t, "a call", r.got)
}

// world is webhooks on a database of a test's own, which do not run, and their log.
type world struct {
	*Webhooks
	db  *pgtest.DB
	log *logtest.Buffer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db := pgtest.New(t)
	db.StartAt(t, time.Now())
	return newWorldOn(t, db, credential.NewTestKeyring())
}

func newWorldOn(t testing.TB, db *pgtest.DB, keys *credential.Keyring) *world {
	t.Helper()
	log := new(logtest.Buffer)
	w := New(db.Pool, keys, Settings{
		Window:          time.Minute,
		AllowedNetworks: loopback,
		RootCAs:         roots(t),
		Limits:          wait.Patient,
		Logger:          telemetry.NewLogger(log, slog.LevelInfo),
	})
	return &world{w, db, log}
}

// limit has the webhooks, which do not run yet, give up after other times than the usual ones.
func (w *world) limit(l work.Limits) {
	w.limits, w.sender.timeout, w.sender.dialer.Timeout = l, l.Webhook, l.Webhook
}

// roots trust the certificate that all test servers of httptest share.
func roots(t testing.TB) *x509.CertPool {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
}

// run runs the webhooks until stop is called, which waits for what is in flight, or the test ends.
func (w *world) run(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// client is a client whose events go to a receiver.
func (w *world) client(t testing.TB, r *receiver) pgtest.Client {
	t.Helper()
	url := "https://127.0.0.1:1/"
	if r != nil {
		url = r.URL + "/hooks?key=hush"
	}
	return w.clientAt(t, r, url)
}

func (w *world) clientAt(t testing.TB, r *receiver, url string) pgtest.Client {
	t.Helper()
	client := w.db.Client(t)
	secret, err := w.SetEndpoint(t.Context(), client.ID, url)
	if err != nil {
		t.Fatal(err)
	}
	if r != nil {
		r.mu.Lock()
		r.secret = secret
		r.mu.Unlock()
	}
	return client
}

// revoked writes a connection.revoked event, as the statement of a revocation does.
func (w *world) revoked(t testing.TB, client pgtest.Client) uuid.UUID {
	t.Helper()
	return pgtest.Value[uuid.UUID](t, w.db, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
		values (gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 3, 'refresh_token_revoked') returning event_id`, client.ID)
}

// event is the event as the log has it.
func (w *world) event(t testing.TB, id uuid.UUID) Event {
	t.Helper()
	event, err := w.Event(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// taken has each event be one that a server has leased, and released.
func (w *world) taken(t testing.TB) {
	t.Helper()
	w.db.Exec(t, "update webhook_events set queued = true, leased_until = now() where not queued")
}

// attemptNow makes an attempt of an event without a lease, due or not, and returns in how many seconds after it the next one is
// due; 0: the event is settled. It takes its real time in the time of the database, too, which is slow.
func (w *world) attemptNow(t testing.TB, id uuid.UUID) (wait time.Duration) {
	t.Helper()
	w.taken(t)
	if err := w.leases().Do(t.Context(), w.toSend(t, w.event(t, id)), nil); err != nil {
		t.Fatal(err)
	}
	event := w.event(t, id)
	if event.State != Pending {
		return 0
	}
	last := event.Attempts[len(event.Attempts)-1]
	ended := last.At.Add(last.Duration)
	w.db.Clock.Advance(max(0, ended.Sub(w.db.Now())))
	return event.NextAttemptAt.Sub(ended).Round(time.Second)
}

// toSend is an event as if it had been claimed.
func (w *world) toSend(t testing.TB, event Event) *claimed {
	t.Helper()
	targets, err := w.targets(t.Context(), event.ClientID)
	if err != nil {
		t.Fatal(err)
	}
	return &claimed{Event: event, target: targets[event.ClientID], at: time.Now()}
}

// claimed leases what is due, as a server does that has this much room.
func (w *world) claimed(t testing.TB, room map[uuid.UUID]int) []*claimed {
	t.Helper()
	events, _, err := w.claim(t.Context(), room, maxHeld)
	if err != nil {
		t.Fatal(err)
	}
	return events
}
