//go:build timed

package standstill_test

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"connect-svc/gen/operatorapi"
	"connect-svc/gen/partnerapi"
	"connect-svc/internal/app"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/edge/pages"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/redistest"
	"connect-svc/internal/testing/wait"
)

// Decisions, section 5: whatever is away, reads are answered within 2 s and everything else within 5 s, as documented. A
// refresh that was not sent has not happened. It is not parallel: what is measured is the service, not the other tests.
func TestTimedStandstillOfPostgreSQL(t *testing.T) {
	server, db := ownDatabase(t)
	w := newWhole(t, db, withDefaultLimits)
	isBatch := func(a ask) bool { return a.limit == batchLimit }
	after := w.asks(t)
	coverEverything(t, after)
	_, sent := split(w.asks(t), isBatch)
	_, unsent := split(w.asks(t), isBatch)
	_, kept := w.connected(t)
	w.fillPool(t)

	pause(t, server)
	together(t, sent).areFaults(t, "on connections that hang")
	wait.Until(t, "no connection is left", func() bool { return w.service.Pool.Stat().IdleConns() == 0 })
	together(t, append(unsent, w.refreshing(kept.RefreshToken))).areFaults(t, "without a connection")

	if err := server.Continue(); err != nil {
		t.Fatal(err)
	}
	inTurn(t, []ask{w.refreshing(kept.RefreshToken)}).areRight(t, "the refresh that was not sent")
	inTurn(t, after).areRight(t, "after the standstill")
}

// The operator's batches have 30 s.
func TestTimedStandstillOfABatch(t *testing.T) {
	t.Parallel()
	server, db := ownDatabase(t)
	w := newWhole(t, db, withDefaultLimits)
	batches, _ := split(append(w.operatorAsks(t), w.operatorAsks(t)...), func(a ask) bool { return a.limit == batchLimit })
	w.fillPool(t)
	pause(t, server)
	together(t, batches[:1]).areFaults(t, "a batch")
	if err := server.Continue(); err != nil {
		t.Fatal(err)
	}
	inTurn(t, batches[1:]).areRight(t, "a batch after the standstill")
}

// While the rate limiter stands still reads are refused, and everything else goes on.
func TestTimedStandstillOfRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	w := newWhole(t, pgtest.New(t), withDefaultLimits, func(c *app.Config) { c.LimiterURL = redis.URL() })
	isRead := func(a ask) bool { return a.limit == readLimit }
	reads, others := split(w.asks(t), isRead)
	readsAfter, _ := split(w.asks(t), isRead)
	redis.Pause(t)
	t.Cleanup(func() { redis.Continue(t) })
	var refused sync.WaitGroup
	refused.Go(func() { together(t, reads).areFaults(t, "reads while Redis stands still") })
	inTurn(t, others).areRight(t, "all else while Redis stands still")
	refused.Wait()
	inTurn(t, reads).areFaults(t, "reads on connections that were given up")

	redis.Continue(t)
	wait.Until(t, "the limiter works again", func() bool {
		got, err := readsAfter[0].send(t)
		return err == nil && got.status == http.StatusOK
	})
	inTurn(t, readsAfter).areRight(t, "reads after the standstill")
}

// ownDatabase is a PostgreSQL that no other test uses, and the service's database on it.
func ownDatabase(t *testing.T) (*embedded.Server, *pgtest.DB) {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Ephemeral: true, Limits: wait.Patient})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := migrate.Apply(t.Context(), server.URL(), migrate.Up); err != nil {
		t.Fatal(err)
	}
	db := &pgtest.DB{URL: server.URL(), Clock: new(clock.Clock)}
	db.Pool = db.Open(t)
	return server, db
}

// pause lets PostgreSQL stand still until it is continued, at the end of the test at the latest.
func pause(t *testing.T, server *embedded.Server) {
	t.Helper()
	t.Cleanup(func() {
		if err := server.Continue(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
}

// runUntilCleanup is the service as a process runs it, until the test ends.
func runUntilCleanup(t *testing.T, config app.Config) *app.App {
	t.Helper()
	a, err := app.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a
}

// fillPool opens all connections that the service may have.
func (w *whole) fillPool(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range w.service.Pool.MaxConns() {
		held, err := w.service.Pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held.Rollback(ctx) }()
	}
}

// coverEverything fails where there is an operation or a page that nothing is asked of.
func coverEverything(t *testing.T, asks []ask) {
	t.Helper()
	covered, wanted := map[string]bool{}, map[string]bool{}
	for _, a := range asks {
		covered[a.covers] = true
	}
	for name, document := range map[string]func() (*openapi3.T, error){"openapi.yaml": partnerapi.GetSpec, "operator.yaml": operatorapi.GetSpec} {
		spec, err := document()
		if err != nil {
			t.Fatal(name, err)
		}
		for _, item := range spec.Paths.Map() {
			for _, operation := range item.Operations() {
				wanted[operation.OperationID] = true
			}
		}
	}
	site, err := pages.New(pages.Config{RequestLifetime: oauth.DefaultSettings.RequestLifetime})
	if err != nil {
		t.Fatal(err)
	}
	desk, err := console.New(console.Config{Consent: new(pages.ConsentPreview)})
	if err != nil {
		t.Fatal(err)
	}
	for _, handler := range []http.Handler{site, desk} {
		if err := chi.Walk(handler.(chi.Routes), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			wanted[method+" "+pattern] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(wanted) < 30 {
		t.Errorf("%d operations and pages were found", len(wanted))
	}
	for name := range maps.Keys(wanted) {
		if !covered[name] {
			t.Errorf("nothing is asked of %s: add a request", name)
		}
	}
}

// split tells those that the test wants from the others.
func split(asks []ask, wants func(ask) bool) (wanted, others []ask) {
	for _, a := range asks {
		if wants(a) {
			wanted = append(wanted, a)
		} else {
			others = append(others, a)
		}
	}
	return wanted, others
}

// withDefaultLimits has the program's own limits run out.
func withDefaultLimits(c *app.Config) { c.Limits = work.DefaultLimits }
