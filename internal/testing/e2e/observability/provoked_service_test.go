//go:build faults && linux

package observability_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/process"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/redistest"
)

// watched is a service of two servers, and all that they depend on.
type watched struct {
	db                            *pgtest.DB
	primary, replica              *embedded.Server
	dir                           string // of the primary, and of the certificate
	wayToPrimary, wayToReplica    *proxytest.Proxy
	wayToMail                     *proxytest.Proxy
	mail                          *mailtest.Server
	redis                         *redistest.Server
	databaseURL, readURL, mailURL string
	keys                          *credential.Keyring
	roots                         *x509.CertPool // of the certificates that the first server presents
	first, second                 *server
	partner                       pgtest.Client
	tokens                        oauth.Tokens

	mu    sync.Mutex
	fired map[string]string // when each alert fired and ended, in words
}

type server struct {
	app     *app.App
	private string // address
	stop    func()
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{
		dir: t.TempDir(), wayToPrimary: proxytest.New(t), wayToReplica: proxytest.New(t), wayToMail: proxytest.New(t), mail: mailtest.Start(t, mailtest.Config{}),
		redis: redistest.Start(t), keys: credential.NewTestKeyring(), roots: x509.NewCertPool(), fired: map[string]string{},
	}
	w.startPrimary(t)
	if _, err := migrate.Apply(t.Context(), w.primary.URL(), migrate.Up); err != nil {
		t.Fatal(err)
	}
	w.db = &pgtest.DB{URL: w.databaseURL, Clock: new(clock.Clock)}
	w.db.Pool = w.db.Open(t)
	w.startReplica(t)
	w.mailURL = w.wayToMail.Open(t, "smtp://"+w.mail.Address)
	w.present(t, 90*24*time.Hour)
	w.first, w.second = w.serve(t, "127.0.0.1:0"), w.serve(t, "127.0.0.1:0")
	w.partner = w.db.Client(t, func(c *pgtest.Client) { c.RequestsPerMinute, c.Burst = 60_000, 1000 })
	return w
}

// startPrimary starts PostgreSQL, the first time with an empty directory.
func (w *watched) startPrimary(t *testing.T) {
	t.Helper()
	var err error
	if w.primary, err = embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(w.dir, "primary")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.primary.Stop()
		_ = os.RemoveAll(w.primary.Dir()) // for root it is not in the test's own directory
	})
	w.databaseURL = w.wayToPrimary.Open(t, w.primary.URL())
}

func (w *watched) startReplica(t *testing.T) {
	t.Helper()
	replica, err := embedded.StartReplica(t.Context(), w.primary, embedded.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Stop() })
	w.replica, w.readURL = replica, w.wayToReplica.Open(t, replica.URL())
}

func stopAtOnce(t *testing.T, server *embedded.Server) {
	t.Helper()
	if err := server.StopAtOnce(); err != nil {
		t.Fatal(err)
	}
}

// present has servers present a certificate that ends after a time. They read it again every five seconds.
func (w *watched) present(t *testing.T, lasts time.Duration) {
	t.Helper()
	certificate := edgetest.Certificate(t, "connect.example.com", time.Now().Add(-time.Hour), time.Now().Add(lasts))
	e2e.WriteCertificate(t, w.dir, certificate)
	w.roots.AddCert(certificate.Leaf)
}

// serve runs a server as a process does, with the limits of one, until it is stopped or the test ends.
func (w *watched) serve(t *testing.T, private string) *server {
	t.Helper()
	var listening net.Listener
	err := process.Rebind(func() (err error) {
		listening, err = new(net.ListenConfig).Listen(t.Context(), "tcp", private)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	mailer, err := account.NewMailer(w.mailURL, "no-reply@example.com")
	if err != nil {
		t.Fatal(err)
	}
	config := app.Config{
		BaseURL: "https://connect.example.com", Database: settings.Database{DatabaseURL: w.databaseURL + "&pool_max_conns=6"},
		Replicas: settings.Replicas{DatabaseReadURL: w.readURL}, Keys: w.keys, Listen: "127.0.0.1:0", PrivateListener: listening, Mailer: mailer,
		OAuth: oauth.DefaultSettings, LimiterURL: w.redis.URL(), Clock: w.db.Clock, Logger: telemetry.NewLogger(new(logtest.Buffer), slog.LevelInfo),
		Memory: 1, // the fewest places for connections
	}
	config.Activity.CursorLifetime = time.Minute
	config.Webhooks.AllowedNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	config.Webhooks.RootCAs = w.receiverCAs(t)
	if config.Certificate, err = settings.ReadCertificate("tls", filepath.Join(w.dir, "connect.pem"), filepath.Join(w.dir, "connect-key.pem")); err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return &server{app: a, private: listening.Addr().String(), stop: stop}
}

func (*watched) receiverCAs(*testing.T) *x509.CertPool {
	receiver := httptest.NewTLSServer(nil) // all have the same certificate
	defer receiver.Close()
	pool := x509.NewCertPool()
	pool.AddCert(receiver.Certificate())
	return pool
}

// traffic does something again and again until it is stopped.
func (w *watched) traffic(act func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				act()
			}
		}
	}()
	return func() { close(end); <-ended }
}

func (w *watched) connect(t *testing.T, partner pgtest.Client) oauth.Tokens {
	t.Helper()
	return edgetest.Connect(t, w.first.app.OAuth, partner, scope.All, w.db.User(t).ID)
}

// ask sends a request to the first server's public handler, as from its listener.
func (w *watched) ask(method, target string, form url.Values, authenticate func(*http.Request)) {
	request := httptest.NewRequestWithContext(context.Background(), method, "https://connect.example.com"+target, strings.NewReader(form.Encode()))
	if form == nil {
		request = httptest.NewRequestWithContext(context.Background(), method, "https://connect.example.com"+target, nil)
	} else {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	authenticate(request)
	w.first.app.Handler().ServeHTTP(httptest.NewRecorder(), request)
}

func (w *watched) read(tokens oauth.Tokens) {
	day := time.Now().UTC().Format(time.DateOnly)
	w.ask(http.MethodGet, "/connect-svc/v1/grants/"+tokens.GrantID.String()+"/daily-activity?from="+day+"&to="+day, nil, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
	})
}

func (w *watched) refresh(tokens oauth.Tokens) {
	w.ask(http.MethodPost, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}},
		func(r *http.Request) { r.SetBasicAuth(w.partner.ID.String(), w.partner.Secret) })
}

// manyPartners registers so many partners and has each try a code that does not exist.
func (w *watched) manyPartners(t *testing.T, n int) {
	t.Helper()
	secret := "svci_" + strings.Repeat("a", 43)
	w.db.Exec(t, `insert into clients (client_id, name, callback_url, scopes, secret_hash, status, requests_per_minute, burst, concurrent_reads, created_at)
		select gen_random_uuid(), 'Many ' || n, 'https://partner.example/callback', 7, $2, 'active', 600, 60, 10, connect_now() from generate_series(1, $1) n`,
		n, credential.Hash(secret))
	rows, err := w.db.Pool.Query(t.Context(), "select client_id from clients where name like 'Many %'")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		w.ask(http.MethodPost, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"svcr2_none"}},
			func(r *http.Request) { r.SetBasicAuth(id.String(), secret) })
	}
}

// visit opens a connection to the first server's public listener, and reads.
func (w *watched) visit() {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.roots, ServerName: "connect.example.com", MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	target := "https://" + w.first.app.PublicAddr().String() + "/connect-svc/v1/grants/" + w.tokens.GrantID.String() + "/daily-activity"
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, target, nil)
	if err != nil {
		return
	}
	request.Header.Set("Authorization", "Bearer "+w.tokens.AccessToken)
	if answer, err := (&http.Client{Timeout: 10 * time.Second, Transport: transport}).Do(request); err == nil {
		_ = answer.Body.Close()
	}
}

// receives is a partner whose webhook's receiver answers with a status.
func (w *watched) receives(t *testing.T, name string, status int) pgtest.Client {
	t.Helper()
	address, _ := edgetest.Receiver(t, func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(status) })
	partner := w.db.Client(t, func(c *pgtest.Client) { c.Name = name })
	if _, err := w.first.app.Webhooks.SetEndpoint(t.Context(), partner.ID, address); err != nil {
		t.Fatal(err)
	}
	return partner
}

// disconnects has a user end a connection, of which the partner is told.
func (w *watched) disconnects(t *testing.T, partner pgtest.Client) {
	t.Helper()
	tokens := w.connect(t, partner)
	w.ask(http.MethodPost, "/oauth/revoke", url.Values{"token": {tokens.RefreshToken}},
		func(r *http.Request) { r.SetBasicAuth(partner.ID.String(), partner.Secret) })
}

// hold takes a lock until it is freed.
func (w *watched) hold(t *testing.T, lock string) (free func()) {
	t.Helper()
	tx, err := w.db.Pool.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "set local idle_in_transaction_session_timeout = 0; "+lock)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback(context.Background()) }
}

// readOnly has the database take no writes, or take them again.
func (w *watched) readOnly(t *testing.T, to string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, statement := range []string{
		"set default_transaction_read_only = off", "alter database connect set default_transaction_read_only = " + to,
		"select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// watcher is a Prometheus.
type watcher struct {
	*watched
	base, name string
}

func startPrometheus(t *testing.T, w *watched, name, rules string, every time.Duration) *watcher {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{"rules.yml": rules, "prometheus.yml": fmt.Sprintf(`global: {scrape_interval: %[1]s, scrape_timeout: %[2]s, evaluation_interval: %[1]s}
rule_files: [rules.yml]
scrape_configs:
- job_name: connect-svc
  static_configs: [{targets: [%[3]q, %[4]q]}]
`, every, min(every, 10*time.Second), w.first.private, w.second.private)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	watching := &watcher{watched: w, name: name}
	process.Start(t, func(port string) process.Config {
		watching.base = "http://127.0.0.1:" + port
		return process.Config{
			Args: []string{
				"--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, port),
				"--web.listen-address", "127.0.0.1:" + port, "--log.level=error",
			},
			Ready: func(ctx context.Context) error { _, err := watching.firing(ctx); return err },
		}
	}, "prometheus")
	return watching
}

// firing asks for the alerts that fire, with one of their summaries.
func (p *watcher) firing(ctx context.Context) (map[string]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/api/v1/alerts", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var list struct {
		Status string
		Data   struct {
			Alerts []struct {
				State               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || list.Status != "success" {
		return nil, fmt.Errorf("%s: %w", answer.Status, err)
	}
	firing := map[string]string{}
	for _, alert := range list.Data.Alerts {
		if alert.State == "firing" {
			firing[alert.Labels["alertname"]] = alert.Annotations["summary"]
		}
	}
	return firing, nil
}

// fires waits until all of these fire. Those of the rules as they are come in the promised time, and no others with them.
func (p *watcher) fires(t *testing.T, began time.Time, names ...string) {
	t.Helper()
	limit, exact := 5*time.Minute, false
	if p.name == "as is" {
		limit, exact = promised, true
	}
	waiting := slices.Clone(names)
	for ; len(waiting) > 0; <-time.After(100 * time.Millisecond) {
		firing, err := p.firing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		after := time.Since(began)
		for name, summary := range firing {
			i := slices.Index(waiting, name)
			if i >= 0 {
				waiting = slices.Delete(waiting, i, i+1)
				p.note(t, name, fmt.Sprintf("%5.1f s (%s) %s", after.Seconds(), p.name, summary))
			} else if exact && !slices.Contains(names, name) {
				t.Errorf("%s fires, too: %s", name, summary)
				names = append(names, name)
			}
		}
		if after > limit {
			t.Errorf("after %s these do not fire: %q; these do: %v", limit, waiting, firing)
			return
		}
	}
}

// ended waits until no alert fires.
func (p *watcher) ended(t *testing.T, began time.Time) {
	t.Helper()
	for ; ; <-time.After(100 * time.Millisecond) {
		firing, err := p.firing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(firing) == 0 {
			t.Logf("%s: no alert fires %.1f s after the causes ended", p.name, time.Since(began).Seconds())
			return
		}
		if time.Since(began) > 5*time.Minute {
			t.Errorf("these have not ended: %v", firing)
			return
		}
	}
}

func (p *watcher) note(t *testing.T, name, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("%-28s %s", name, text)
	if p.fired[name] == "" {
		p.fired[name] = text
	}
}
