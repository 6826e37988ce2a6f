package restart_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connect-svc/internal/app"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgbouncertest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// restartable is a PostgreSQL of the test's own that keeps its address, whatever becomes of it.
type restartable struct {
	*proxytest.Proxy
	dir     string
	running *embedded.Server
	db      *pgtest.DB
}

func newRestartable(t *testing.T) *restartable {
	t.Helper()
	r := &restartable{Proxy: proxytest.New(t), dir: filepath.Join(t.TempDir(), "postgres")}
	r.start(t)
	t.Cleanup(func() {
		_ = os.RemoveAll(r.running.Dir())
	})
	t.Cleanup(func() {
		if err := r.running.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := migrate.Apply(t.Context(), r.running.URL(), migrate.Up); err != nil {
		t.Fatal(err)
	}
	at := r.Open(t, r.running.URL())
	r.db = &pgtest.DB{URL: at, URLs: []string{at}, Clock: new(clock.Clock)}
	r.db.Pool = r.db.Open(t)
	return r
}

// start runs PostgreSQL. The proxy does not lead there yet.
func (r *restartable) start(t *testing.T) {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: r.dir, Limits: wait.Patient})
	if err != nil {
		t.Fatal(err)
	}
	r.running = server
}

// A partner refreshes forty connections, each with its newest token, while PostgreSQL restarts. It stops at a 500, after which
// it does not know which token is the newest. That is the answer only where the statement had been sent when PostgreSQL went,
// or where there was no database for the whole time of a request; all others are waited for.
func TestRefreshesOverARestart(t *testing.T) {
	t.Parallel()
	direct := func(_ *testing.T, url string) string { return url }
	for name, test := range map[string]struct {
		by      func(t *testing.T, url string) string // the way to PostgreSQL
		stop    func(*embedded.Server) error
		lasting bool // for longer than a request waits
	}{
		"fast":      {direct, (*embedded.Server).Stop, false},
		"immediate": {direct, (*embedded.Server).StopAtOnce, false},
		"lasting":   {direct, (*embedded.Server).Stop, true},
		"fast, through PgBouncer": {func(t *testing.T, url string) string {
			return pgbouncertest.Start(t, pgbouncerINI, url).URL
		}, (*embedded.Server).Stop, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const connections, before, after = 40, 3, 3 // refreshes of each
			r := newRestartable(t)
			log := new(logtest.Buffer)
			keys := credential.NewTestKeyring()
			e := e2e.NewOn(t, r.db, func(c *app.Config) {
				c.Keys, c.Logger, c.DatabaseURL = keys, telemetry.NewLogger(log, slog.LevelWarn), test.by(t, r.db.URL)
				if test.lasting {
					c.Limits.Act = work.DefaultLimits.Act
				}
			})
			f := e2e.NewFront(t, e, false)
			f.Client.Transport.(*http.Transport).MaxIdleConnsPerHost = connections
			afterwards := f
			if test.lasting { // a server that hardly waits may be late on a busy machine
				afterwards = e2e.NewFront(t, e2e.NewOn(t, r.db, func(c *app.Config) { c.Keys = keys }), false)
			}
			var newest []string
			for range connections {
				_, tokens := e.NewConnection(t, e.Partner)
				newest = append(newest, tokens.RefreshToken)
			}

			_, kept := e.NewConnection(t, e.Partner)

			var warm, lost atomic.Int64
			var restarted atomic.Bool
			var chains sync.WaitGroup
			for _, token := range newest {
				chains.Go(func() {
					warmed := sync.OnceFunc(func() { warm.Add(1) })
					for done, left := 1, after; left > 0; done++ {
						began := restarted.Load()
						got := f.Refresh(t.Context(), t, e.Partner, token)
						switch {
						case got.Status == http.StatusOK:
							token = got.RefreshToken(t)
						case got.Status == http.StatusInternalServerError && !began:
							lost.Add(1)
							warmed() // where requests can give up they may do so before, on a busy machine
							return
						default:
							t.Errorf("the refresh %d of a connection, after the restart: %t, is %d %s", done, began, got.Status, got.Body)
							return
						}
						if done == before {
							warmed()
						}
						if began {
							left--
						}
					}
				})
			}
			wait.Until(t, "all refresh", func() bool { return warm.Load() == connections })
			if err := test.stop(r.running); err != nil {
				t.Error(err)
			}
			if test.lasting {
				wait.Until(t, "all have given up", func() bool { return lost.Load() == connections })
			}
			r.start(t)
			r.Open(t, r.running.URL())
			restarted.Store(true)
			if got := afterwards.Refresh(t.Context(), t, e.Partner, kept.RefreshToken); got.Status != http.StatusOK {
				t.Errorf("the first refresh after the restart is %d", got.Status)
			}
			chains.Wait()

			faults := faultsOf(t, log)
			if int64(len(faults)) != lost.Load() {
				t.Errorf("%d connections were lost, with %d causes", lost.Load(), len(faults))
			}
			sent := 0
			for _, fault := range faults {
				switch connected := !strings.Contains(fault.Cause, "failed to connect"); {
				case connected && underTheStatement.MatchString(fault.Cause):
					sent++
				case fault.DurationMS < 0.9*float64(e.Config.Limits.Act.Milliseconds()): // before its time was over
					t.Errorf("a 500 after %.0f ms for a statement that was not sent: %s", fault.DurationMS, fault.Cause)
				}
			}
			if most := e.App.Pool.MaxConns(); sent > most {
				t.Errorf("%d statements had been sent on %d connections", sent, most)
			}
		})
	}
}

// underTheStatement is how an error reads where PostgreSQL or the connection ended while a statement was there.
var underTheStatement = regexp.MustCompile(`57P01|unexpected EOF|connection reset|server conn crashed`)

// failure is the event of a request that failed.
type failure struct {
	Operation  string
	Cause      string
	DurationMS float64 `json:"duration_ms"`
}

// faultsOf are the refreshes that failed.
func faultsOf(t *testing.T, log *logtest.Buffer) (faults []failure) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var event failure
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if event.Operation == "requestToken" && event.Cause != "" {
			faults = append(faults, event)
		}
	}
	return faults
}
