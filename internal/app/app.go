// Package app puts the service together: the database pool, the domains, the two listeners and the background work.
// The command line's serve, the demo and the sandbox start it.
//
// # Invariants
//
//   - The public listener has neither health nor anything for the operator. The listener for load balancers has only health
//     (TestConsoleIsPrivate, TestOperatorAPIIsPrivate, connect-svc.TestServePrivateTLS).
//   - It starts only on a schema that it works on; otherwise the error says what to do (connect-svc.TestServeOnANewerSchema).
//   - After it was asked to stop, /readyz is 503, so that load balancers send nothing more. It serves everything for the drain delay.
//     Then it accepts nothing new, finishes running requests, and ends within fifteen seconds (TestDrain,
//     TestStopBreaksOffWhatDoesNotEnd).
//   - A stop resets no connection that was made before it, on Linux (TestStopResetsNobody, listener.TestDrainServesWhatWaits).
//   - The connections of a listener and their requests are bounded. Something new replaces what waits for its caller, in the
//     network that has the most (listener.TestConnections, TestFloodFromOneNetwork, TestSiege, connect-svc.TestMemoryOfConnections).
//   - Background work that panics is logged and goes on (TestSweepThatPanics).
//   - One of the servers that are up sweeps (TestOneServerSweeps), however long a sweep takes (TestSweepThatTakesLong).
//
// It has no rules: the domains decide what a request may do, and the edges how to respond.
package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/lookup"
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
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/telemetry"
)

// App is the service: its domains, for the program that starts it, and its listeners.
type App struct {
	Pool *postgres.Pool
	preview.Domains
	Replicas *replica.Set // nil: none

	config          Config // at the start
	reloads         reloads
	readiness       readiness
	health          health
	edges           atomic.Pointer[edges]
	bodies          *contract.Budget // memory for bodies of the operator API, also after reloads
	servers         *servers.Servers
	alerts          *alerts.Alerts
	others          map[string]bool // whether the servers are up, and their clocks are right, as of the last look that could find out
	hosts           map[string]bool // whether the servers of a host are up, as of that look
	heartbeatSent   bool            // by the last look
	alertsSent      []alerts.Alert  // with the last heartbeat
	sweptElsewhere  atomic.Bool     // another server sweeps
	mayLackCommits  atomic.Bool     // as of the last look
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
	if config.ReadOnly { // these are beside the original, or of its load balancer
		config.DatabaseReadURL, config.LimiterURL, config.ReadyListen = "", "", ""
	}
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
		postgres.WithTracer(config.Traces.QueryTracer()), postgres.WithReadOnly(config.ReadOnly)); err != nil {
		return err
	}
	if err := CheckSchema(ctx, a.Pool); err != nil {
		return err
	}
	check := config.Keys.CheckMarks
	if config.ReadOnly {
		check = config.Keys.TryMarks
	}
	if err := check(ctx, postgres.Noting{Pool: a.Pool}); err != nil {
		return err
	}
	a.Clients = client.NewRegistry(a.Pool, oauth.EndConnectionsOfClient)
	if config.Random != nil {
		a.Clients.Random, config.OAuth.Random = config.Random, config.Random
	}
	a.Usage = usage.New(a.Pool, config.Limits, config.Logger, a.Pool.Clock().Now)
	config.OAuth.Now, config.OAuth.Logger, config.OAuth.Limits, config.OAuth.Active = a.Pool.Clock().Now, config.Logger, config.Limits, a.Usage.Active
	a.OAuth = oauth.New(a.Pool, config.Keys, config.OAuth)
	accounts := config.Accounts
	accounts.Brand, accounts.BaseURL, accounts.Texts = config.Brand, config.BaseURL, config.Texts
	accounts.Logger, accounts.Limits, accounts.Trace = config.Logger, config.Limits, config.Traces.Act
	accounts.FindConnection, accounts.Notices = pages.FindConnection(a.OAuth), a.partnerLetters(config)
	accounts.EndConnections, accounts.EndRequests = usage.Forgetting(oauth.EndConnectionsOfUser), oauth.EndRequestsOfUsers
	a.Accounts = account.New(a.Pool, config.Keys, config.Mailer, accounts)
	a.Audit = audit.New(a.Pool, config.Limits, config.AuditRetention)
	a.Finder = lookup.New(a.Pool)
	a.sessions = operators.NewSessions(a.Pool)
	a.Portal = portal.New(a.Pool)
	if config.DatabaseReadURL != "" {
		if a.Replicas, err = replica.Open(ctx, config.DatabaseReadURL, a.Pool, config.Limits, config.Clock.Now, config.Logger,
			postgres.WithTracer(config.Traces.QueryTracer())); err != nil {
			return fmt.Errorf("read replicas (CONNECT_DATABASE_READ_URL): %w", err)
		}
	}
	webhooks := config.Webhooks
	if a.Replicas != nil {
		webhooks.ReplicaLag = config.Limits.ReplicaLag
	}
	config.Activity.Replicas = a.Replicas
	a.Activity = activity.New(a.Pool, config.Keys, config.Activity)
	webhooks.Trace, webhooks.Settled, webhooks.Random = config.Traces.Act, a.countSettled, config.Random
	webhooks.Limits, webhooks.Logger, webhooks.Costly = config.Limits, config.Logger, a.Clients.Costly
	a.Webhooks = webhook.New(a.Pool, config.Keys, webhooks)

	if err := a.openLimiter(ctx, config); err != nil {
		return err
	}
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
		Places: listener.Places(bodyMemory(config.Memory) / 2), Proxies: config.TrustedProxies, Limits: config.Limits,
		Now: config.Clock.Now, Logger: a.logger,
	}
	ofPublic := all
	ofPublic.Name, ofPublic.Listener, ofPublic.Address = "public listener (CONNECT_LISTEN)", config.Listener, config.Listen
	ofPublic.Handler, ofPublic.MaxUnread = a.closing(public), maxUnread
	ofPublic.Certificate, ofPublic.Setting, ofPublic.Host = config.Certificate, "CONNECT_TLS_CERT", base.Hostname()
	if !config.ReadOnly {
		if a.public, err = listener.Open(ctx, ofPublic); err != nil {
			return err
		}
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
		Now:      a.Pool.Clock().Now,
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
		case edges.site != nil && (site.IsBelow(r.URL.Path, developers.Path) || edges.site.AsksForModule(r)):
			edges.site.ServeHTTP(w, r)
		case edges.portal != nil && site.IsBelow(r.URL.Path, portal.Path):
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

// Build is what a program was built from.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`

	At time.Time `json:"-"` // when the commit was made; the same wherever it is built
}

func (b Build) String() string { return fmt.Sprintf("%s (commit %s)", b.Version, b.Commit) }

// BuildOf takes what is not set from what the Go tool records about every build. The commit that the Go tool records goes first.
func BuildOf(version, commit string) Build {
	b := Build{Version: version, Commit: commit}
	info, known := debug.ReadBuildInfo()
	if !known {
		info = &debug.BuildInfo{}
	}
	b.Version = cmp.Or(b.Version, info.Main.Version)
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "development"
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.At, _ = time.Parse(time.RFC3339, setting.Value) // the Go tool's own form
		}
	}
	b.Commit = cmp.Or(b.Commit, "unknown")
	return b
}
