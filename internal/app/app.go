package app

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/servers"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/edge/developers"
	"connect-svc/internal/edge/pages"
	"connect-svc/internal/edge/partner"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// Config configures the service. Its values have been checked.
type Config struct {
	BaseURL        string // the issuer, an exact https origin
	DatabaseURL    string
	ReadURL        string // of streaming replicas, hosts separated by commas, for rows of activity; empty: none
	Keys           *credential.Keyring
	Listen         string       // the public listener; port 0 is any free one
	Listener       net.Listener // an open public listener, instead of Listen; the App closes it
	PrivateListen  string
	PrivateHosts   []string        // names, in lower case, of the private listener besides IP addresses and localhost
	ReadyListen    string          // a listener with only /healthz and /readyz, for load balancers; empty: none
	DrainDelay     time.Duration   // how long everything is still served, and /readyz is 503, before a stop
	TrustedProxies network.Proxies // their X-Forwarded-For is trusted
	LimiterURL     string          // of Redis or Valkey; empty: the limiter uses PostgreSQL
	Mailer         *account.Mailer

	Certificate        listener.Certificate // of the public listener; nil: plain HTTP behind a proxy that terminates TLS
	PrivateCertificate listener.Certificate // of the private listener; nil: plain HTTP

	Version, Commit string // of the program, in the log's first line and in connect_build_info

	Operators *operators.Tokens // nil: the operator API and the console are off

	Memory int64 // bytes that the process may use; 0: unknown

	DevelopersSite bool                 // whether the public listener serves /developers/
	SDKModule      string               // path of the Go SDK's module on that site; empty: developers.DefaultModule
	Programs       *developers.Programs // of the sandbox, on that site; nil: none

	AuthorityFile string // of the public listener's certificate, which that site tells to trust; empty: everybody trusts it

	Receipts      bool           // whether users get emails about their connections and sign-ins
	PartnerPortal bool           // whether the public listener serves portal.Path
	PortalChanges portal.Changes // what people may do there

	OAuth           oauth.Settings
	CursorLifetime  time.Duration
	CodesPerEmail   int // one-time codes sent to one address an hour; 0: no limit
	CodesPerNetwork int // one-time codes asked for from one network address an hour; 0: no limit

	AuditRetention        time.Duration     // how long events of the audit log are kept; 0: for ever
	Brand                 brand.Brand       // of pages and emails; without a name: the program's own
	Texts                 *locale.Catalogue // nil: the program's own
	ActivityUpdatedWindow time.Duration     // how long changes are merged into one activity.updated
	WebhookNetworks       []netip.Prefix    // private networks that webhooks may reach
	WebhookRootCAs        *x509.CertPool    // the authorities of webhook receivers' certificates; nil: the system's

	// These fields are for programs that extend the service, such as the sandbox; no setting sets them. Public and Private wrap
	// the handlers of the listeners, and WebhookTransport wraps the transport to webhook receivers; nil: no wrapper.
	// PrivateListener is an open listener, instead of PrivateListen.
	Public, Private  func(http.Handler) http.Handler
	WebhookTransport func(http.RoundTripper) http.RoundTripper
	Random           io.Reader // source of the ids and secrets of clients, webhooks and grants, used concurrently; nil: crypto/rand
	PrivateListener  net.Listener
	ConsoleToken     string                 // fills the console's sign-in form, on a developer's machine
	Observe          func(*telemetry.Event) // gets each finished request of the public listener; it must not block

	Limits work.Limits     // the zero value is work.DefaultLimits; no setting sets it
	Clock  *postgres.Clock // nil: the real time
	Logger *slog.Logger
	Traces *telemetry.Traces // nil: none
}

// App is the service: its domains, for the program that starts it, and its listeners.
type App struct {
	Pool     *postgres.Pool
	Clients  *client.Registry
	Accounts *account.Accounts
	OAuth    *oauth.Server
	Activity *activity.Store
	Usage    *usage.Usage
	Webhooks *webhook.Webhooks
	Portal   *portal.Portal
	Replicas *replica.Set // nil: none

	config          Config // at the start
	reloads         reloads
	readiness       readiness
	edges           atomic.Pointer[edges]
	bodies          *contract.Budget // memory for bodies of the operator API, also after reloads
	audit           *audit.Log
	servers         *servers.Servers
	alerts          *alerts.Alerts
	others          map[string]bool // whether the other servers are up, as of the last look that could find out
	hosts           map[string]bool // whether the servers of a host are up, as of that look
	heartbeatSent   bool            // by the last look
	alertsSent      []alerts.Alert  // with the last heartbeat
	sweptElsewhere  atomic.Bool     // another server sweeps
	mayLackCommits  bool            // as of the last look
	sessions        *operators.Sessions
	limiter         *ratelimit.Limiter
	closeLimiter    func()
	logger          *slog.Logger
	metrics         *telemetry.Metrics
	public, private *listener.Server
	probing         *listener.Server // for load balancers; nil: none
	stopping        atomic.Bool

	certificateInterval time.Duration
}

// Open connects to the database, checks its schema, and opens the listeners. Connections wait until [App.Run] serves them. Every
// error is one line that says what could not be opened. Call Run or Close afterwards.
func Open(ctx context.Context, config Config) (*App, error) {
	config.Limits = config.Limits.OrDefault()
	a := &App{
		config:              config,
		logger:              config.Logger,
		certificateInterval: certificateInterval,
	}
	if err := a.open(ctx, config); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (a *App) open(ctx context.Context, config Config) (err error) {
	if a.Pool, err = postgres.Open(ctx, config.DatabaseURL, postgres.WithClock(config.Clock), postgres.WithLimits(config.Limits),
		postgres.WithTracer(config.Traces.QueryTracer())); err != nil {
		return err
	}
	if err := CheckSchema(ctx, a.Pool); err != nil {
		return err
	}
	if err := config.Keys.CheckMarks(ctx, a.Pool); err != nil {
		return err
	}
	a.Clients = client.NewRegistry(a.Pool, oauth.EndConnectionsOfClient)
	if config.Random != nil {
		a.Clients.Random, config.OAuth.Random = config.Random, config.Random
	}
	config.OAuth.Now = a.Pool.Now
	a.OAuth = oauth.New(a.Pool, config.Keys, config.OAuth)
	a.Accounts = account.New(a.Pool, config.Keys, config.Mailer, account.Settings{
		CodesPerEmail:   config.CodesPerEmail,
		CodesPerNetwork: config.CodesPerNetwork,
		Brand:           config.Brand,
		BaseURL:         config.BaseURL,
		Texts:           config.Texts,
		Logger:          config.Logger,
		Limits:          config.Limits,
		Trace:           config.Traces.Act,
		Receipts:        config.Receipts,
		FindConnection:  pages.FindConnection(a.OAuth),
		EndConnections:  oauth.EndConnectionsOfUser,
		EndRequests:     oauth.EndRequestsOfUsers,
		Notices:         a.partnerLetters(config),
	})
	a.audit = audit.New(a.Pool, config.Limits, config.AuditRetention)
	a.sessions = operators.NewSessions(a.Pool)
	a.Portal = portal.New(a.Pool)
	if config.ReadURL != "" {
		if a.Replicas, err = replica.Open(ctx, config.ReadURL, a.Pool, config.Limits, config.Clock.Now, config.Logger,
			postgres.WithTracer(config.Traces.QueryTracer())); err != nil {
			return fmt.Errorf("read replicas (CONNECT_DATABASE_READ_URL): %w", err)
		}
	}
	a.Activity = activity.New(a.Pool, config.Keys, activity.Settings{CursorLifetime: config.CursorLifetime, Replicas: a.Replicas})

	a.Webhooks = webhook.New(a.Pool, config.Keys, webhook.Settings{
		Window:          config.ActivityUpdatedWindow,
		AllowedNetworks: config.WebhookNetworks,
		RootCAs:         config.WebhookRootCAs,
		Transport:       config.WebhookTransport,
		Trace:           config.Traces.Act,
		Settled:         a.countSettled,
		Random:          config.Random,
		Limits:          config.Limits,
		Logger:          config.Logger,
	})

	if err := a.openLimiter(ctx, config); err != nil {
		return err
	}
	a.Usage = usage.New(a.Pool, config.Limits, config.Logger, a.Pool.Now)
	a.metrics = telemetry.NewMetrics(config.Logger)
	a.collect()
	if err := a.openServers(); err != nil {
		return err
	}
	a.bodies = contract.NewBudget(bodyMemory(config.Memory), config.Limits.Body)
	if err := a.takeOver(config); err != nil {
		return err
	}
	public, err := a.publicHandler(config)
	if err != nil {
		return err
	}
	private := a.privateHandler()
	if config.Public != nil {
		public = config.Public(public)
	}
	if config.Private != nil {
		private = config.Private(private)
	}
	observers := []func(*telemetry.Event){a.metrics.Observe, a.countUsage}
	if config.Observe != nil {
		observers = append(observers, config.Observe)
	}
	public, private = waking(a.Webhooks.Wake, public), waking(a.Webhooks.Wake, private)
	public = config.Traces.Handler(telemetry.Requests(a.logger, fromNetworks(config.TrustedProxies, roomy(alike(public))), observers...))
	private = config.Traces.Handler(telemetry.Requests(a.logger, byTLSAlone(listener.OnlyHosts(config.PrivateHosts, roomy(namingCallers(alike(private))))), a.metrics.Observe))
	return a.listen(ctx, config, public, private)
}

// bodyMemory returns how much memory bodies may use: half of the process's memory. The rest is for everything else, and for garbage
// that has not been collected yet.
func bodyMemory(memory int64) int64 {
	if memory == 0 {
		return 1 << 30
	}
	return memory / 2
}

// maxUnread bounds the bodies of one connection of HTTP/2 to the public listener that nobody has read, in bytes.
const maxUnread = 64 << 10

// certificateInterval is the interval between reads of the certificates. Reading is cheap. Unlike notifications of a file system it
// notices every way to replace files: swapped links (Kubernetes, certbot), new files, and files that are overwritten.
const certificateInterval = 5 * time.Second

// listen opens the listeners. Connections wait until they are served.
func (a *App) listen(ctx context.Context, config Config, public, private http.Handler) (err error) {
	base, err := url.Parse(config.BaseURL)
	if err != nil {
		return fmt.Errorf("base URL (CONNECT_BASE_URL): %w", err)
	}
	all := listener.Config{
		Places: listener.Places(bodyMemory(config.Memory) / 2), Proxies: config.TrustedProxies, Longest: config.Limits.Batch,
		Now: config.Clock.Now, Logger: a.logger,
	}
	ofPublic := all
	ofPublic.Name, ofPublic.Listener, ofPublic.Address = "public listener (CONNECT_LISTEN)", config.Listener, config.Listen
	ofPublic.Handler, ofPublic.MaxUnread = a.closing(public), maxUnread
	ofPublic.Certificate, ofPublic.Setting, ofPublic.Host = config.Certificate, "CONNECT_TLS_CERT", base.Hostname()
	if a.public, err = listener.Open(ctx, ofPublic); err != nil {
		return err
	}
	all.Places /= 8
	ofPrivate := all
	ofPrivate.Name, ofPrivate.Listener, ofPrivate.Address = "private listener (CONNECT_PRIVATE_LISTEN)", config.PrivateListener, config.PrivateListen
	ofPrivate.Handler, ofPrivate.Certificate, ofPrivate.Setting = a.closing(private), config.PrivateCertificate, "CONNECT_PRIVATE_TLS_CERT"
	if a.private, err = listener.Open(ctx, ofPrivate); err != nil || config.ReadyListen == "" {
		return err
	}
	ofProbes := all
	ofProbes.Name, ofProbes.Address = "listener for load balancers (CONNECT_READY_LISTEN)", config.ReadyListen
	ofProbes.Handler = telemetry.Requests(a.logger, a.closing(a.probes(brief)), a.metrics.Observe)
	a.probing, err = listener.Open(ctx, ofProbes)
	return err
}

func (a *App) openLimiter(ctx context.Context, config Config) error {
	if config.LimiterURL == "" {
		a.limiter = ratelimit.New(ratelimit.NewPostgres(a.Pool), config.Limits.Limiter)
		return nil
	}
	store, err := ratelimit.OpenRedis(ctx, config.LimiterURL, config.Limits.Limiter)
	if err != nil {
		return fmt.Errorf("rate limiter (CONNECT_LIMITER_URL): %w", err)
	}
	a.limiter, a.closeLimiter = ratelimit.New(store, config.Limits.Limiter), store.Close
	return nil
}

// publicHandler serves the partner API, the browser's pages and the developers' site. It does not use http.ServeMux, which redirects
// untidy paths: unknown paths are 404 (specification 4).
func (a *App) publicHandler(config Config) (http.Handler, error) {
	api, err := partner.New(partner.Config{
		BaseURL:  config.BaseURL,
		OAuth:    a.OAuth,
		Activity: a.Activity,
		Limiter:  a.limiter,
		Logger:   config.Logger,
		Now:      a.Pool.Now,
		Limits:   config.Limits,
	})
	if err != nil {
		return nil, err
	}
	all := asGet(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edges := a.edges.Load()
		switch {
		case partner.IsBackend(r.URL.Path):
			api.ServeHTTP(w, r)
		case edges.site != nil && (developers.Serves(r.URL.Path) || edges.site.AsksForModule(r)):
			edges.site.ServeHTTP(w, r)
		case edges.portal != nil && portal.Serves(r.URL.Path):
			edges.portal.ServeHTTP(w, r)
		default:
			edges.pages.ServeHTTP(w, r)
		}
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.edges.Load().site != nil && config.Programs != nil && strings.HasPrefix(r.URL.Path, developers.ProgramsPath) {
			config.Programs.ServeHTTP(w, r) // answers HEAD without reading a program
			return
		}
		all.ServeHTTP(w, r)
	}), nil
}

// PublicAddr returns the address of the public listener, with its actual port.
func (a *App) PublicAddr() net.Addr { return a.public.Addr() }

// PrivateAddr returns the address of the private listener, with its actual port.
func (a *App) PrivateAddr() net.Addr { return a.private.Addr() }

// ReadyAddr returns the address of the listener for load balancers, which the configuration names.
func (a *App) ReadyAddr() net.Addr { return a.probing.Addr() }

// Handler returns the handler of the public listener.
func (a *App) Handler() http.Handler { return a.public.HTTP.Handler }

// PrivateHandler returns the handler of the private listener.
func (a *App) PrivateHandler() http.Handler { return a.private.HTTP.Handler }

// listeners returns the open listeners in the order in which they stop: /readyz answers while requests run.
func (a *App) listeners() []*listener.Server {
	return slices.DeleteFunc([]*listener.Server{a.public, a.private, a.probing}, func(s *listener.Server) bool { return s == nil })
}

// listenerNames are the names of listeners on pages and in metrics.
func (a *App) listenerNames() map[string]*listener.Server {
	return map[string]*listener.Server{"public": a.public, "private": a.private, "ready": a.probing}
}

// secured calls each with the name and the certificate of each listener that speaks TLS, in this order.
func (a *App) secured(each func(name string, certificate *listener.Presented)) {
	for _, name := range []string{"public", "private"} {
		if open := a.listenerNames()[name]; open != nil && open.Certificate != nil {
			each(name, open.Certificate)
		}
	}
}

// Close releases everything that Open opened. Run calls it as well.
func (a *App) Close() {
	for _, s := range a.listeners() {
		s.Close()
	}
	if a.limiter != nil {
		ctx, cancel := context.WithTimeout(context.Background(), a.config.Limits.Limiter)
		defer cancel()
		a.limiter.Flush(ctx)
	}
	if a.closeLimiter != nil {
		a.closeLimiter()
	}
	a.Replicas.Close()
	if a.Pool != nil {
		a.Pool.Close()
	}
}
