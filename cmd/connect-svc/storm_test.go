package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// stormSize is how many connections end in the storm. The large storms, of all faults, are those of make test-faults.
const stormSize = 120

// Three servers end connections and deliver the events of it, while one is killed, PostgreSQL restarts, and all are
// killed: every event is delivered at least once, with one webhook-id, and none for what was rolled back.
func TestStormOfRevocations(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	for range 3 {
		s.startServer(t)
	}
	ended := make(chan struct{}, len(s.grants))
	work := make(chan uuid.UUID)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for grant := range work {
				s.disconnect(t, grant)
				ended <- struct{}{}
			}
		})
	}
	go func() {
		for _, grant := range s.grants {
			work <- grant
		}
		close(work)
	}()
	s.rollBack(t, s.ghosts[:len(s.ghosts)/2])
	for n := range s.grants {
		<-ended
		switch n {
		case len(s.grants) / 4:
			s.kill(t, 0)
			s.startServer(t)
		case len(s.grants) / 2:
			s.restartPostgres(t)
		case len(s.grants) * 3 / 4:
			for range 3 {
				s.kill(t, 0)
			}
			s.startServer(t)
			s.startServer(t)
		}
	}
	workers.Wait()
	s.rollBack(t, s.ghosts[len(s.ghosts)/2:])

	s.awaitSettled(t)
	s.check(t)
}

// storm is servers on a database, a partner with its receiver, and connections that are to end.
type storm struct {
	dir      string // of PostgreSQL
	proxy    *proxytest.Proxy
	database *embedded.Server
	env      []string
	pool     *postgres.Pool
	id       uuid.UUID
	secret   string
	grants   []uuid.UUID
	ghosts   []uuid.UUID // whose end is rolled back
	mu       sync.Mutex
	running  []*process
	received map[uuid.UUID]map[string]int // by grant and webhook-id
}

type process struct {
	public string
	cmd    *exec.Cmd
	ended  <-chan struct{}
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{dir: filepath.Join(t.TempDir(), "postgres"), received: map[uuid.UUID]map[string]int{}}
	database, err := embedded.Start(t.Context(), embedded.Config{Dir: s.dir, Limits: wait.Patient})
	if err != nil {
		t.Fatal(err)
	}
	s.database = database
	t.Cleanup(func() {
		if err := s.database.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.proxy = proxytest.New(t)
	at := s.proxy.Open(t, database.URL())
	if _, err := migrate.Apply(t.Context(), at, migrate.Up); err != nil {
		t.Fatal(err)
	}
	if s.pool, err = postgres.Open(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)

	receiver := httptest.NewUnstartedServer(nil)
	receiver.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of servers that are killed
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	authority := writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})))
	s.env = with(allSettings(t, &pgtest.DB{URL: at}), asProgram+"=1",
		"SSL_CERT_FILE="+authority, "CONNECT_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8")
	s.register(t, receiver)
	s.grants, s.ghosts = s.connect(t, stormSize), s.connect(t, 20)
	return s
}

// register makes the partner and its webhook.
func (s *storm) register(t *testing.T, receiver *httptest.Server) {
	t.Helper()
	registered, secret, err := client.NewRegistry(s.pool, oauth.EndConnectionsOfClient).Create(t.Context(), client.Registration{
		Name: "Ride Club", CallbackURL: "https://partner.example/callback", Scopes: scope.All, Policy: client.DefaultPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.id, s.secret = registered.ID, secret
	var keyset string
	for _, variable := range s.env {
		if file, found := strings.CutPrefix(variable, "CONNECT_KEYSET_FILE="); found {
			keyset = file
		}
	}
	keys, err := credential.LoadKeyring(keyset)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := webhook.New(s.pool, keys, webhook.Settings{}).SetEndpoint(t.Context(), s.id, receiver.URL)
	if err != nil {
		t.Fatal(err)
	}
	library, err := standardwebhooks.NewWebhook(signing)
	if err != nil {
		t.Fatal(err)
	}
	receiver.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return // a server that was killed
		}
		var event struct {
			Data struct {
				GrantID uuid.UUID `json:"grant_id"`
				Reason  string    `json:"reason"`
			} `json:"data"`
		}
		if err := library.Verify(body, request.Header); err != nil || json.Unmarshal(body, &event) != nil ||
			event.Data.Reason != "client_disconnected" {
			t.Errorf("received %s: %v", body, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		ids := s.received[event.Data.GrantID]
		if ids == nil {
			ids = map[string]int{}
			s.received[event.Data.GrantID] = ids
		}
		ids[request.Header.Get("webhook-id")]++
	})
}

// connect makes connections of as many users with the partner.
func (s *storm) connect(t *testing.T, n int) (grants []uuid.UUID) {
	t.Helper()
	err := s.pool.QueryRow(t.Context(), `with u as (
			insert into users (user_id, email, timezone, registered_on, created_at)
			select gen_random_uuid(), gen_random_uuid() || '@users.example', 'UTC', '2020-01-01', connect_now()
			from generate_series(1, $2)
			returning user_id
		), c as (
			insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
				refresh_generation, refresh_hash, refresh_deadline)
			select user_id, $1, gen_random_uuid(), 1, 'authorized', 7, '2026-01-01', connect_now(), 1, sha256('x'),
				connect_now() + interval '90 days'
			from u
			returning grant_id, user_id, client_id
		), d as (
			insert into grant_directory (grant_id, user_id, client_id) select grant_id, user_id, client_id from c returning grant_id
		)
		select array_agg(grant_id) from d`, s.id, n).Scan(&grants)
	if err != nil {
		t.Fatal(err)
	}
	return grants
}

// startServer starts one more server.
func (s *storm) startServer(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "serve")
	cmd.Env = s.env
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // may be gone
	watched := new(service)
	ended := watched.watch(t, stderr)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, &process{watched.public, cmd, ended})
}

// kill ends a running server as kill -9 does.
func (s *storm) kill(t *testing.T, i int) {
	t.Helper()
	s.mu.Lock()
	p := s.running[i]
	s.running = append(s.running[:i:i], s.running[i+1:]...)
	s.mu.Unlock()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-p.ended
	_ = p.cmd.Wait() // it was killed
}

// restartPostgres stops PostgreSQL in the middle of everything, of a transaction of the test as well, and starts it.
func (s *storm) restartPostgres(t *testing.T) {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ghost := s.ghosts[0]
	if _, err := tx.Exec(t.Context(), endByHand, ghost); err != nil {
		t.Fatal(err)
	}
	if err := s.database.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("a transaction outlived PostgreSQL")
	}
	database, err := embedded.Start(t.Context(), embedded.Config{Dir: s.dir, Limits: wait.Patient})
	if err != nil {
		t.Fatal(err)
	}
	s.database = database
	s.proxy.Open(t, database.URL())
}

// endByHand is a disconnect by the statements of a test.
const endByHand = `with ended as (
		update connections set state = 'disconnected', version = version + 1, refresh_hash = null where grant_id = $1
		returning user_id, client_id, grant_id
	)
	insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
	select user_id, client_id, 'connection.revoked', grant_id, 1, 'client_disconnected' from ended`

// rollBack ends connections and takes it back.
func (s *storm) rollBack(t *testing.T, grants []uuid.UUID) {
	t.Helper()
	for _, grant := range grants {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), endByHand, grant); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// disconnect ends a connection as a partner does: at any server, again until it is answered.
func (s *storm) disconnect(t *testing.T, grant uuid.UUID) {
	t.Helper()
	for again := time.NewTicker(20 * time.Millisecond); ; <-again.C {
		s.mu.Lock()
		address := ""
		if len(s.running) > 0 {
			address = s.running[rand.N(len(s.running))].public
		}
		s.mu.Unlock()
		if address == "" {
			continue
		}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodDelete,
			"http://"+address+"/connect-svc/v1/customer/grants/"+grant.String(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		request.SetBasicAuth(s.id.String(), s.secret)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			continue // the server was killed
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusNoContent {
			again.Stop()
			return
		}
		if answer.StatusCode < 500 {
			t.Errorf("a disconnect was answered %d", answer.StatusCode)
			return
		}
	}
}

// awaitSettled waits until there is nothing left to deliver. The leases of the servers that were killed end at once.
func (s *storm) awaitSettled(t *testing.T) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), "update webhook_events set leased_until = now() where leased_until > now()"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "all is delivered", func() (done bool) {
		if err := s.pool.QueryRow(t.Context(), "select not exists (select from webhook_events where state = 'pending')").Scan(&done); err != nil {
			t.Fatal(err)
		}
		return done
	})
}

func (s *storm) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	more := 0
	for _, grant := range s.grants {
		ids := s.received[grant]
		if len(ids) != 1 {
			t.Errorf("a connection that ended has %d webhook-ids", len(ids))
		}
		for _, n := range ids {
			more += n - 1
		}
		delete(s.received, grant)
	}
	if len(s.received) != 0 {
		t.Errorf("%d events of connections that did not end", len(s.received))
	}
	t.Logf("%d events, %d of them delivered more than once", len(s.grants), more)
	var events, delivered int
	if err := s.pool.QueryRow(t.Context(), "select count(*), count(*) filter (where state = 'delivered') from webhook_events").
		Scan(&events, &delivered); err != nil || events != len(s.grants) || delivered != events {
		t.Errorf("the log has %d events, %d of them delivered: %v", events, delivered, err)
	}
}
