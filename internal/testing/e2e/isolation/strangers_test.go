package isolation_test

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// hold takes every database connection of the service, until the function that it returns is called.
func hold(t *testing.T, e *e2e.Service) (free func()) {
	t.Helper()
	var held []pgx.Tx
	for range e.App.Pool.Config().MaxConns {
		tx, err := e.App.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, tx)
	}
	return func() {
		for _, tx := range held {
			_ = tx.Rollback(context.WithoutCancel(t.Context())) // it changed nothing
		}
	}
}

// A server that has just started has seen no credentials yet. However many strangers guess secrets, of this client and of others,
// what this client presents is served after one turn of all of theirs.
func TestStrangersDelayNoPartner(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	f := e2e.NewFront(t, e, true)
	_, refreshed := e.NewConnection(t, e.Partner)
	_, revoked := e.NewConnection(t, e.Partner)
	_, ended := e.NewConnection(t, e.Partner)
	code := e2e.Authorized(t, e.App, e.Partner, e.DB.User(t))
	wrong := e.Partner
	wrong.Secret = "svci_wrong"

	free := hold(t, e)
	const guesses = 300
	guessed := make(chan int, 2*guesses)
	for i := range guesses {
		other := wrong
		other.ID = uuid.New()
		for _, partner := range []pgtest.Client{wrong, other} {
			form := url.Values{"token": {"svcr2_guess"}}
			path := "/oauth/revoke"
			if i%2 == 0 {
				form, path = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"svcr2_guess"}}, "/oauth/token"
			}
			go func() { guessed <- f.Post(t.Context(), t, partner, path, form).Status }()
		}
	}
	wait.Until(t, "all guesses are under way", func() bool { return f.Came.Load() == 2*guesses })

	var genuine sync.WaitGroup
	ask := func(what string, want int, send func() e2e.Response) {
		genuine.Go(func() {
			if got := send(); got.Status != want {
				t.Errorf("%s beside guesses answers %d, want %d", what, got.Status, want)
			}
		})
	}
	ask("a refresh", http.StatusOK, func() e2e.Response { return f.Refresh(t.Context(), t, e.Partner, refreshed.RefreshToken) })
	ask("an exchange", http.StatusOK, func() e2e.Response {
		return f.Token(t.Context(), t, e.Partner, url.Values{
			"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {e.Partner.CallbackURL}, "code_verifier": {edgetest.Verifier},
		})
	})
	ask("a revocation", http.StatusOK, func() e2e.Response {
		return f.Post(t.Context(), t, e.Partner, "/oauth/revoke", url.Values{"token": {revoked.RefreshToken}})
	})
	ask("a disconnect", http.StatusNoContent, func() e2e.Response { return f.Disconnect(t.Context(), t, e.Partner, ended.GrantID) })
	wait.Until(t, "they are under way", func() bool { return f.Came.Load() == 2*guesses+4 })
	// All guesses are questions of a few statements, of which one waits.
	if n := e.App.Pool.Turns().Waiting; n > 5 {
		t.Errorf("%d statements wait for 4 genuine requests and %d guesses", n, 2*guesses)
	}
	free()
	genuine.Wait()
	for range 2 * guesses {
		if status := <-guessed; status != http.StatusUnauthorized {
			t.Errorf("a guess answers %d", status)
		}
	}
}
