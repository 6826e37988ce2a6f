package restart_test

import (
	"context"
	"crypto/tls"
	"flag"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/process"
	"connect-svc/internal/testing/wait"
)

// The tests of rolling restarts: as they are for `make test`, twelve restarts and the proxies' own times for `make test-long`.
var restarts = flag.Int("restarts", 2, "how many servers are restarted behind each proxy; from 12 on without shortening any time")

// Partners refresh without a pause through a proxy, while the two servers behind it are restarted in turn. Then both say that they are
// not ready. Each refresh is answered.
func TestRollingRestarts(t *testing.T) {
	t.Parallel()
	t.Run("HAProxy", func(t *testing.T) { t.Parallel(); testRollingRestarts(t, startHAProxy, true) })
	t.Run("nginx", func(t *testing.T) { t.Parallel(); testRollingRestarts(t, startNginx, false) })
}

// rolling are two servers that are to be restarted behind a proxy.
type rolling struct {
	e       *e2e.Service
	servers [2]*rollingServer
	dir     string   // of the proxy's files
	adapted []string // what to replace in a proxy's configuration, so that restarts are quick, and a busy machine is not refused
}

// rollingServer keeps its addresses.
type rollingServer struct {
	config app.Config
	app    *app.App
	stop   context.CancelFunc
	ended  chan error
}

func (s *rollingServer) start(t *testing.T) {
	t.Helper()
	if err := process.Rebind(func() (err error) {
		s.app, err = app.Open(t.Context(), s.config)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.config.Listen, s.config.PrivateListen = s.app.PublicAddr().String(), s.app.PrivateAddr().String()
	s.config.ReadyListen = s.app.ReadyAddr().String()
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.ended = stop, make(chan error, 1)
	running := s.app
	go func() { s.ended <- running.Run(ctx) }()
}

func (s *rollingServer) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// refreshed tells whether the server has answered a refresh since it started.
func (s *rollingServer) refreshed(t *testing.T) bool {
	t.Helper()
	_, metrics := edgetest.GetAnew(t, "http://"+s.config.PrivateListen+"/metrics")
	return answeredRefresh.MatchString(metrics)
}

// unready counts the probes that were told that the server is not ready.
func (s *rollingServer) unready(t *testing.T) int {
	t.Helper()
	_, metrics := edgetest.GetAnew(t, "http://"+s.config.PrivateListen+"/metrics")
	count := 0
	if found := unreadyProbes.FindStringSubmatch(metrics); found != nil {
		count, _ = strconv.Atoi(found[1])
	}
	return count
}

var unreadyProbes = regexp.MustCompile(`(?m)^connect_requests_total\{operation="readyz",status="503"\} (\d+)`)

var answeredRefresh = regexp.MustCompile(`(?m)^connect_refreshes_total\{outcome="rotated"\} [1-9]`)

// asks tells whether the proxy asks for /readyz.
func testRollingRestarts(t *testing.T, startProxy func(*testing.T, rolling) string, asks bool) {
	var config app.Config
	r := rolling{dir: t.TempDir()}
	r.e = e2e.New(t, func(c *app.Config) {
		c.ReadyListen, c.DrainDelay, c.TrustedProxies = "127.0.0.1:0", 5*time.Second, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		if *restarts < 12 { // the delay stays: within it the proxies have to notice
			r.adapted = []string{"inter 1s", "inter 100ms", "keepalive_timeout 3s", "keepalive_timeout 500ms",
				"timeout connect 2s", "timeout connect 60s", "timeout check 3s", "timeout check 60s", "proxy_connect_timeout 2s", "proxy_connect_timeout 60s"}
		}
		config = *c
	})
	for n := range r.servers {
		r.servers[n] = &rollingServer{config: config}
		r.servers[n].start(t)
	}
	defer func() {
		for _, s := range r.servers {
			s.stop() // both drain at once
		}
		for _, s := range r.servers {
			s.end(t)
		}
	}()
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	roots := e2e.WriteCertificate(t, r.dir, pair)
	address := startProxy(t, r)

	var answered atomic.Int64
	var chains sync.WaitGroup
	over, cancel := context.WithCancel(t.Context())
	defer cancel()
	for n := range 4 {
		_, tokens := r.e.NewConnection(t, r.e.Partner)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "connect.example.com"}, ForceAttemptHTTP2: n%2 == 0}
		t.Cleanup(transport.CloseIdleConnections)
		partner := e2e.Front{Base: "https://" + address, Client: &http.Client{Transport: transport}}
		chains.Go(func() {
			for token := tokens.RefreshToken; over.Err() == nil; answered.Add(1) {
				got := partner.Refresh(t.Context(), t, r.e.Partner, token)
				if got.Status != http.StatusOK {
					t.Errorf("a refresh is %d %s", got.Status, got.Body)
					return
				}
				token = got.RefreshToken(t)
				if *restarts < 12 { // beside other tests
					<-time.After(20 * time.Millisecond)
				}
			}
		})
	}
	for n := range *restarts {
		for _, s := range r.servers { // the proxy knows of both
			wait.Until(t, "the server is sent refreshes", func() bool { return t.Failed() || s.refreshed(t) })
		}
		one := r.servers[n%len(r.servers)]
		one.end(t)
		one.start(t)
	}
	for _, s := range r.servers {
		wait.Until(t, "the server is sent refreshes", func() bool { return t.Failed() || s.refreshed(t) })
	}
	r.e.DB.Define(t, "create or replace function connect_oldest_program() returns bigint language sql immutable as 'select 9999::bigint'")
	for _, s := range r.servers {
		if asks { // HAProxy leaves a server out after the second
			wait.Until(t, "the proxy has heard three times that the server is not ready", func() bool { return t.Failed() || s.unready(t) >= 3 })
		}
	}
	enough := answered.Load() + 8
	wait.Until(t, "refreshes are answered when no server is ready", func() bool { return t.Failed() || answered.Load() >= enough })
	cancel()
	chains.Wait()
	t.Logf("%d refreshes were answered over %d restarts", answered.Load(), *restarts)
}

// behind is what a proxy needs to know.
func (r rolling) behind() e2e.Proxied {
	p := e2e.Proxied{Dir: r.dir, Replace: r.adapted}
	for _, s := range r.servers {
		p.Listen, p.Ready = append(p.Listen, s.config.Listen), append(p.Ready, s.config.ReadyListen)
	}
	return p
}

func startHAProxy(t *testing.T, r rolling) string { return e2e.StartHAProxy(t, r.behind()) }
func startNginx(t *testing.T, r rolling) string   { return e2e.StartNginx(t, r.behind()) }
