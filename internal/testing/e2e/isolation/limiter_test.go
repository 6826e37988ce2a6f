package isolation_test

import (
	"net/http"
	"testing"

	"golang.org/x/oauth2"

	"connect-svc/internal/app"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/redistest"
	"connect-svc/internal/testing/wait"
)

// Decisions, section 5: while Redis hangs or is gone a partner is told to come again, and nobody passes. It recovers by
// itself, also when Redis comes back without what it knew.
func TestLimiterFaults(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	e := e2e.New(t, func(config *app.Config) {
		config.LimiterURL, config.Limits.Limiter = redis.URL(), work.DefaultLimits.Limiter
	})
	_, token := e.Connect(t)
	readsAgain(t, e, token)
	redis.Pause(t)
	if status := e.Read(t, token); status != http.StatusServiceUnavailable {
		t.Errorf("while Redis hangs a read answers %d", status)
	}
	redis.Continue(t)
	readsAgain(t, e, token)

	redis.Kill()
	if status := e.Read(t, token); status != http.StatusServiceUnavailable {
		t.Errorf("while Redis is gone a read answers %d", status)
	}
	redis.Restart(t)
	readsAgain(t, e, token)
}

// The address of Redis leads to another server, and the old one, which keeps its connections, is a replica of it: what the service holds is of
// no use any more, and it notices by itself.
func TestLimiterSwitchover(t *testing.T) {
	t.Parallel()
	old, promoted := redistest.Start(t), redistest.Start(t)
	address := proxytest.New(t)
	e := e2e.New(t, func(config *app.Config) { config.LimiterURL = address.Open(t, old.URL()) })
	_, token := e.Connect(t)
	readsAgain(t, e, token)
	old.Follow(t, promoted)
	address.Open(t, promoted.URL())
	readsAgain(t, e, token)
}

// readsAgain reads until it is answered: connections that broke are noticed one by one, and a limiter that can give up may do so on a
// busy machine.
func readsAgain(t *testing.T, e *e2e.Service, token *oauth2.Token) {
	t.Helper()
	wait.Until(t, "a read is answered", func() bool {
		status := e.Read(t, token)
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatalf("a read answers %d", status)
		}
		return status == http.StatusOK
	})
}
