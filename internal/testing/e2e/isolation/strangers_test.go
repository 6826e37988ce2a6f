package isolation_test

import (
	"context"
	"flag"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// hold takes every database connection of the service, until the function that it returns is called, or the test ends: the service
// could not be closed otherwise.
func hold(t *testing.T, e *e2e.Service) (free func()) {
	t.Helper()
	var held []pgx.Tx
	for range e.App.Pool.MaxConns() {
		tx, err := e.App.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, tx)
	}
	free = sync.OnceFunc(func() {
		for _, tx := range held {
			_ = tx.Rollback(context.WithoutCancel(t.Context())) // it changed nothing
		}
	})
	t.Cleanup(free)
	return free
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
	code := edgetest.Code(t, e.App.OAuth, e.Partner, scope.All, e.DB.User(t).ID)
	wrong := e.Partner
	wrong.Secret = "svci_wrong"
	e.StopEmails() // whose looks into the outbox would wait for a connection, too

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
	if n := e.App.Pool.QueueStats().Waiting; n > 5 {
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

// sizes are the rows and bytes of every table.
func sizes(t *testing.T, e *e2e.Service) map[string][2]int64 {
	t.Helper()
	found := map[string][2]int64{}
	for _, table := range pgtest.Value[[]string](t, e.DB, `select array_agg(relname::text) from pg_class
		where relkind = 'r' and relnamespace = 'public'::regnamespace`) {
		found[table] = [2]int64{
			pgtest.Value[int64](t, e.DB, "select count(*) from "+pgx.Identifier{table}.Sanitize()),
			pgtest.Value[int64](t, e.DB, "select pg_relation_size($1::regclass)", table),
		}
	}
	return found
}

var strangers = flag.Int("strangers", 50, "how many requests of each kind strangers send")

// Requests without a credential leave nothing in the database and cost at most one statement each. The exception is bounded: a network
// leaves ten entries an hour in a client's list of refused requests.
func TestStrangersWriteNothing(t *testing.T) {
	t.Parallel()
	e := e2e.New(t, func(c *app.Config) { c.DevelopersSite = true })
	f := e2e.NewFront(t, e, true)
	f.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	wrong := e.Partner
	wrong.Secret = "svci_wrong"
	authorize := "/oauth/authorize?" + edgetest.AuthorizationQuery(e.Partner, scope.All).Encode()
	e.StopEmails()
	before := sizes(t, e)
	for name, test := range map[string]struct {
		most   uint64 // statements of one request
		status int
		send   func() e2e.Response
	}{
		"authorize":       {1, 303, func() e2e.Response { return f.Get(t, authorize) }},
		"a wrong query":   {1, 400, func() e2e.Response { return f.Get(t, authorize+"&x=1") }},
		"no request":      {1, 400, func() e2e.Response { return f.Get(t, "/authorize/"+uuid.NewString()+"/sign-in") }},
		"account":         {0, 303, func() e2e.Response { return f.Get(t, "/account") }},
		"account sign-in": {0, 200, func() e2e.Response { return f.Get(t, "/account/sign-in") }},
		"a wrong path":    {0, 404, func() e2e.Response { return f.Get(t, "/nothing") }},
		"no logo":         {1, 404, func() e2e.Response { return f.Get(t, "/static/partners/"+e.Partner.ID.String()+"/logo.png") }},
		"developers":      {0, 200, func() e2e.Response { return f.Get(t, "/developers/") }},
		"metadata":        {0, 200, func() e2e.Response { return f.Get(t, "/.well-known/oauth-authorization-server") }},
		"a wrong token": {0, 401, func() e2e.Response {
			return f.Read(t.Context(), t, oauth.Tokens{GrantID: uuid.New(), AccessToken: "svca_wrong"})
		}},
		"a wrong secret": {1, 401, func() e2e.Response { return f.Refresh(t.Context(), t, wrong, "svcr2_wrong") }},
		"nobody's secret": {1, 401, func() e2e.Response {
			return f.Disconnect(t.Context(), t, pgtest.Client{ID: uuid.New(), Secret: "svci_wrong"}, uuid.New())
		}},
	} {
		times := *strangers
		asked := e.App.Pool.QueueStats().Acquired
		for range times {
			if got := test.send().Status; got != test.status {
				t.Fatalf("%s answers %d, want %d", name, got, test.status)
			}
		}
		if cost := e.App.Pool.QueueStats().Acquired - asked; cost > uint64(times)*test.most {
			t.Errorf("%s: %d statements for %d requests, want %d for each at most", name, cost, times, test.most)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	e.App.Usage.Run(ended) // writes what waits
	after := sizes(t, e)
	if rows := after["client_errors"][0]; rows == 0 || rows > 10 {
		t.Errorf("one network left %d entries without proof, want 1 to 10", rows)
	}
	delete(before, "client_errors")
	delete(after, "client_errors")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("strangers left (-before +after):\n%s", diff)
	}
}
