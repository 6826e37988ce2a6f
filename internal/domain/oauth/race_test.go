package oauth

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// parallel starts n calls at once, alternately on two servers with pools of their own, and returns their outcomes.
func parallel[T any](t *testing.T, f *fixture, n int, act func(*Server) (T, error)) (done []T, refused int) {
	t.Helper()
	servers := []*Server{f.Server, New(f.db.Open(t), f.keys, f.settings)}
	var (
		start = make(chan struct{})
		calls sync.WaitGroup
		mu    sync.Mutex
	)
	for i := range n {
		calls.Go(func() {
			<-start
			result, err := act(servers[i%len(servers)])
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done = append(done, result)
			case errors.Is(err, ErrInvalidGrant), errors.Is(err, ErrInvalidClient), errors.Is(err, ErrRequestEnded):
				refused++
			default:
				t.Errorf("a race ended in a failure: %v", err)
			}
		})
	}
	close(start)
	calls.Wait()
	return done, refused
}

// Specification 3.2: at most one of several parallel refreshes with one token succeeds, and then the family is revoked.
func TestParallelRefreshes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 10 {
		tokens := f.connect(t, scope.All)
		won, refused := parallel(t, f, 8, func(s *Server) (Tokens, error) {
			return s.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
		})
		if len(won) != 1 || refused != 7 {
			t.Errorf("%d won, %d were refused", len(won), refused)
		}
		for _, winner := range append(won, tokens) {
			f.dead(t, winner)
			f.noGrant(t, winner)
		}
		if state := pgtest.Value[string](t, f.db, "select state from connections"); state != "revoked" {
			t.Errorf("the connection is %s", state)
		}
	}
}

// Specification 3.1: one of several parallel exchanges of one code, or of several outstanding codes, succeeds.
func TestParallelExchanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for round := range 10 {
		codes := make(chan string, 8)
		one := f.code(t, scope.All)
		for i := range cap(codes) {
			if round%2 == 0 || i < 4 {
				codes <- one
			} else {
				codes <- f.code(t, scope.All)
			}
		}
		won, refused := parallel(t, f, cap(codes), func(s *Server) (Tokens, error) {
			return s.Exchange(t.Context(), f.as(f.client.ID), ExchangeParams{Code: <-codes, RedirectURI: callback, CodeVerifier: verifier})
		})
		if len(won) != 1 || refused != 7 {
			t.Fatalf("%d won, %d were refused", len(won), refused)
		}
		f.works(t, won[0])
		f.refresh(t, won[0])
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from grant_directory"); n != 1 {
		t.Errorf("%d grants of one connection", n)
	}
}

// A request that is allowed and denied concurrently is decided once: the first decision has the same result each time, and the other one none.
func TestParallelDecisions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 10 {
		id, browser := f.consent(t, scope.All)
		decisions := make(chan func(*Server) (string, error), 8)
		for i := range cap(decisions) {
			decisions <- func(s *Server) (string, error) {
				if i%2 == 0 {
					return s.Allow(t.Context(), id, browser, "")
				}
				return s.Deny(t.Context(), id, browser)
			}
		}
		entries := pgtest.Value[int](t, f.db, "select count(*)::int from audit_log")
		done, refused := parallel(t, f, cap(decisions), func(s *Server) (string, error) { return (<-decisions)(s) })
		allowed := slices.ContainsFunc(done, func(location string) bool { return strings.Contains(location, "&code=") })
		denied := slices.ContainsFunc(done, func(location string) bool { return strings.HasSuffix(location, "&error=access_denied") })
		if len(done) != 4 || refused != 4 || allowed == denied {
			t.Errorf("%d decided, %d were refused; allowed: %t, denied: %t", len(done), refused, allowed, denied)
		}
		if n := pgtest.Value[int](t, f.db, "select count(*)::int from audit_log"); n != entries+1 {
			t.Errorf("%d entries in the audit log", n-entries)
		}
	}
}

// After a revocation or a disconnect has returned nothing works, including the tokens of a concurrent refresh or exchange.
func TestRevokeAndDisconnectWin(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fixture, *Server, Tokens) error{
		"revoke": func(f *fixture, s *Server, tokens Tokens) error {
			return s.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
		},
		"disconnect": func(f *fixture, s *Server, tokens Tokens) error {
			return s.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for range 10 {
				tokens := f.connect(t, scope.All)
				order := make(chan bool, 4)
				for i := range cap(order) {
					order <- i == 2
				}
				issued, _ := parallel(t, f, cap(order), func(s *Server) (Tokens, error) {
					if <-order {
						return tokens, end(f, s, tokens)
					}
					return s.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
				})
				for _, got := range append(issued, tokens) {
					f.dead(t, got)
					f.noGrant(t, got)
				}
			}
		})
	}
}

// A "Disconnect" instead of a consent also ends the connection of a code that is exchanged while it is decided.
func TestDisconnectWinsOverAnExchange(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"DenyAuthorizationRequest", "DisconnectConnection"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.connect(t, scope.All)
			code := f.code(t, scope.All)
			id, browser := f.consent(t, scope.DailySteps)
			var renewed Tokens
			server := f.interrupted(t, statement, func() {
				var err error
				if renewed, err = f.exchange(t, code); err != nil {
					t.Error(err)
				}
			})
			if _, err := server.DenyAndDisconnect(t.Context(), id, browser); err != nil {
				t.Fatal(err)
			}
			f.dead(t, renewed)
			f.noGrant(t, renewed)
		})
	}
}

// A code that is exchanged while its client is offboarded leaves no connection, in any order.
func TestOffboardWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 10 {
		f.client = f.newClient(t)
		codes := make(chan string, 7)
		for i := range cap(codes) {
			if i%2 == 0 {
				f.user = f.newUser(t, "UTC")
			}
			codes <- f.code(t, scope.All)
		}
		order := make(chan bool, 8)
		for i := range cap(order) {
			order <- i == 3
		}
		issued, _ := parallel(t, f, cap(order), func(s *Server) (Tokens, error) {
			if <-order {
				_, err := f.registry.Offboard(t.Context(), f.client.ID)
				return Tokens{}, err
			}
			return s.Exchange(t.Context(), f.as(f.client.ID), ExchangeParams{Code: <-codes, RedirectURI: callback, CodeVerifier: verifier})
		})
		for _, tokens := range issued {
			if tokens.AccessToken != "" {
				f.dead(t, tokens)
				f.noGrant(t, tokens)
			}
		}
	}
	// An exchange that began before may have ended after the last part. Nobody can use what it made, and it does not stay.
	if err := f.Sweep(t.Context(), f.db.Now()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from connections where state <> 'disconnected'"); n != 0 {
		t.Errorf("%d connections of offboarded clients", n)
	}
}

// A sweep finds by an index what is left of offboarded clients, however many connections there are.
func TestSweepOfOffboardedReadsLittle(t *testing.T) {
	pgtest.NotOnCluster(t, "a cluster plans each statement anew for its nodes")
	t.Parallel()
	f := newFixture(t)
	gone := f.client.ID
	f.newClient(t)
	f.db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@example.com', 'UTC', '2020-01-01', connect_now() from generate_series(1, 5000) n`)
	f.db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at, refresh_generation,
			refresh_hash, refresh_deadline)
		select user_id, client_id, gen_random_uuid(), 1, case when client_id = $1 then 'disconnected' else 'authorized' end, 7, '2020-01-01',
			connect_now(), 1, case when client_id <> $1 then sha256('') end, connect_now() + interval '90 days' from users cross join clients`, gone)
	f.db.Exec(t, "update clients set status = 'offboarded' where client_id = $1", gone)
	f.db.Exec(t, "analyze clients, connections")
	sent := new(pgtest.Statements)
	pool, err := postgres.Open(t.Context(), f.db.URL, postgres.WithTracer(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	*sent = nil // what opening it asked
	if err := New(pool, f.keys, f.settings).Sweep(t.Context(), f.db.Now()); err != nil {
		t.Fatal(err)
	}
	sent.Explain(t, pool, func(sql string, plan []pgtest.PlanNode) {
		name, _, _ := strings.Cut(sql, "\n")
		for _, n := range plan {
			if n.Read() > 10 {
				t.Errorf("%s of %s reads %.0f rows in %s", n.Type, n.Table, n.Read(), name)
			}
		}
	})
}

// A sweep deletes all that has expired: partners may revoke each access token when they have used it.
func TestSweepOfManyRevokedTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Exec(t, `insert into revoked_access_tokens (user_id, token_id, expires_at)
		select $1, gen_random_uuid(), $2 from generate_series(1, 120000)`, f.user, f.db.Now().Add(-time.Minute))
	if err := f.Sweep(t.Context(), f.db.Now()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from revoked_access_tokens"); n != 0 {
		t.Errorf("%d tokens that have expired are left", n)
	}
}

// However many connections have lapsed, the table of all is read once to find them.
func TestManyLapsesAreFoundAtOnce(t *testing.T) {
	pgtest.NotOnCluster(t, "a cluster plans each statement anew for its nodes")
	t.Parallel()
	f := newFixture(t)
	const lapsed, all = 2500, 4000
	f.db.Exec(t, `with made as (
			insert into users (user_id, email, timezone, registered_on, created_at)
			select gen_random_uuid(), n || '@example.com', 'UTC', '2020-01-01', connect_now() from generate_series(1, $2::int) n
			returning user_id, email
		)
		insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at, refresh_generation,
			refresh_hash, refresh_deadline)
		select user_id, $1, gen_random_uuid(), 1, 'authorized', 7, '2020-01-01', connect_now(), 1, sha256(''),
			connect_now() + case when split_part(email, '@', 1)::int <= $3 then interval '-1 hour' else interval '1 hour' end from made`, f.client.ID, all, lapsed)
	f.db.Exec(t, "analyze connections")
	sent := new(pgtest.Statements)
	// As it joins a large table.
	pool, err := postgres.Open(t.Context(), f.db.URL+"&enable_hashjoin=off&enable_mergejoin=off", postgres.WithClock(f.db.Clock), postgres.WithLimits(wait.Patient), postgres.WithTracer(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	*sent = nil // what opening it asked
	if err := New(pool, f.keys, f.settings).TellLapses(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from notices"); n != lapsed {
		t.Errorf("%d users are told, want %d", n, lapsed)
	}
	rows := 0.0
	sent.Explain(t, pool, func(_ string, plan []pgtest.PlanNode) {
		for _, n := range plan {
			if n.Table == "connections" && strings.HasSuffix(n.Type, "Scan") {
				rows += n.Read()
			}
		}
	})
	if rows > all+lapsed {
		t.Errorf("%.0f connections are read to find %d of %d", rows, lapsed, all)
	}
}

// A code that is exchanged while its user is deleted leaves no connection, in any order.
func TestDeletionWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	accounts := account.New(f.db.Pool, nil, nil, account.Settings{EndConnections: EndConnectionsOfUser})
	for range 10 {
		f.user = f.newUser(t, "UTC")
		codes, order := make(chan string, 7), make(chan bool, 8)
		for range cap(codes) {
			codes <- f.code(t, scope.All)
		}
		for i := range cap(order) {
			order <- i == 3
		}
		issued, _ := parallel(t, f, cap(order), func(s *Server) (Tokens, error) {
			if <-order {
				_, err := accounts.DeleteUser(t.Context(), f.user)
				return Tokens{}, err
			}
			return s.Exchange(t.Context(), f.as(f.client.ID), ExchangeParams{Code: <-codes, RedirectURI: callback, CodeVerifier: verifier})
		})
		for _, tokens := range issued {
			if tokens.AccessToken != "" {
				f.dead(t, tokens)
				f.noGrant(t, tokens)
			}
		}
	}
	for _, table := range []string{"connections", "grant_directory"} {
		if n := pgtest.Value[int](t, f.db, "select count(*)::int from "+table); n != 0 {
			t.Errorf("%d %s of deleted users", n, table)
		}
	}
	// Each authorization that there was has been ended, and the log says so.
	if n := pgtest.Value[int](t, f.db, `select count(*) filter (where action = 'connection.authorized')::int
		- count(*) filter (where action = 'connection.disconnected')::int from audit_log`); n != 0 {
		t.Errorf("%d more connections began than ended", n)
	}
}

// Specification 7.3: a refresh whose scope is no longer allowed, and a code for a callback that was changed.
func TestChangedRegistration_7_3(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	change := func(apply func(*client.Registration)) {
		t.Helper()
		if _, err := f.registry.Update(t.Context(), f.client.ID, apply); err != nil {
			t.Fatal(err)
		}
	}
	change(func(r *client.Registration) { r.Scopes = scope.DailySteps })
	f.noGrant(t, tokens)
	change(func(r *client.Registration) { r.Scopes = scope.All })
	f.refresh(t, tokens) // the refusal has not used it up

	code := f.code(t, scope.All)
	const elsewhere = "https://partner.example/elsewhere"
	change(func(r *client.Registration) { r.CallbackURL = elsewhere })
	for _, callback := range []string{callback, elsewhere} {
		params := ExchangeParams{Code: code, RedirectURI: callback, CodeVerifier: verifier}
		if _, err := f.Exchange(t.Context(), f.as(f.client.ID), params); !errors.Is(err, ErrInvalidGrant) {
			t.Errorf("a code for the old callback, exchanged for %s: %v", callback, err)
		}
	}
}

// A batch or an import that has noted a change for a connection, and goes on, keeps neither an exchange nor a disconnect waiting.
func TestActsDuringABatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	code := f.code(t, scope.All)
	batch, err := f.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Rollback(t.Context()) //nolint:errcheck // nothing of it is needed
	if _, err := batch.Exec(t.Context(), `insert into webhook_changes (user_id, client_id, datasets, first_date, last_date)
		values ($1, $2, 1, '2026-03-10', '2026-03-10')`, f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), f.db.URL+"&lock_timeout=1s", postgres.WithClock(f.db.Clock), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	server := New(pool, f.keys, f.settings)
	params := ExchangeParams{Code: code, RedirectURI: callback, CodeVerifier: verifier}
	if _, err := server.Exchange(t.Context(), f.as(f.client.ID), params); err != nil {
		t.Errorf("the exchange: %v", err)
	}
	if err := server.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID); err != nil {
		t.Errorf("the disconnect: %v", err)
	}
}

// A revocation of all tokens of a client that is repeated reads its connections in parts, and those of other clients not at all.
func TestRevocationOfAllReadsParts(t *testing.T) {
	pgtest.NotOnCluster(t, "a cluster plans each statement anew for its nodes")
	t.Parallel()
	f := newFixture(t)
	f.newClient(t)
	f.db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@example.com', 'UTC', '2020-01-01', connect_now() from generate_series(1, 5000) n`)
	f.db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at, refresh_generation,
			refresh_hash, refresh_deadline)
		select user_id, client_id, gen_random_uuid(), 1, 'authorized', 7, '2020-01-01', connect_now(), 1, sha256(''),
			connect_now() + interval '90 days' from users cross join clients`)
	f.db.Exec(t, "analyze clients, connections")
	f.db.Exec(t, `update connections set state = 'revoked', refresh_hash = null
		where client_id = $1 and user_id < (select user_id from users order by user_id offset 4990 limit 1)`, f.client.ID)
	sent := new(pgtest.Statements)
	pool, err := postgres.Open(t.Context(), f.db.URL, postgres.WithClock(f.db.Clock), postgres.WithTracer(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	*sent = nil // what opening it asked
	if n, err := New(pool, f.keys, f.settings).RevokeTokensOfClient(t.Context(), f.client.ID); err != nil || n != 11 {
		t.Errorf("%d revoked, %v, want 11", n, err)
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from connections where state = 'authorized' and client_id = $1", f.client.ID); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	sent.Explain(t, pool, func(sql string, plan []pgtest.PlanNode) {
		if !strings.Contains(sql, "RevokeConnectionsOfClient") {
			return
		}
		chosen := slices.IndexFunc(plan, func(n pgtest.PlanNode) bool { return n.Table == "connections" && n.Alias == "c" })
		if chosen < 0 || plan[chosen].Read() > 3*perStatement { // the last parts may be read at once
			t.Errorf("the connections are chosen by %+v", plan)
		}
	})
}

// A user who connects again is not kept waiting while connections that have lapsed are looked for in the whole table.
func TestExchangeWhileLapsesAreLookedFor(t *testing.T) {
	pgtest.NotOnCluster(t, "the node does not know what its shards wait for")
	t.Parallel()
	f := newFixture(t)
	f.connect(t, scope.All)
	first := f.user
	f.user = f.newUser(t, "UTC")
	f.connect(t, scope.All)
	second := f.user
	f.user = first
	f.db.Clock.Advance(DefaultSettings.RefreshInactivity + time.Hour)
	code := f.code(t, scope.All)
	// It is the last one in the table.
	last := pgtest.Value[string](t, f.db, `update connections set refresh_deadline = refresh_deadline + interval '1 second'
		where user_id = $1 returning refresh_deadline::text`, second)
	f.db.Define(t, `create or replace function connection_state(state text, refresh_deadline timestamptz, at timestamptz) returns text language plpgsql stable as $$
		begin
			if refresh_deadline = '`+last+`' then
				perform pg_advisory_xact_lock_shared(1); -- the rest of a large table is read
			end if;
			return case when state = 'authorized' and refresh_deadline <= at then 'lapsed' else state end;
		end $$`)
	reading, err := f.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Rollback(t.Context()) //nolint:errcheck // it was rolled back, or the test has failed
	if _, err := reading.Exec(t.Context(), "select pg_advisory_xact_lock(1)"); err != nil {
		t.Fatal(err)
	}
	// As it joins a large table.
	telling, err := postgres.Open(t.Context(), f.db.URL+"&enable_hashjoin=off&enable_mergejoin=off", postgres.WithClock(f.db.Clock), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer telling.Close()
	told := make(chan error, 1)
	go func() { told <- New(telling, f.keys, f.settings).TellLapses(t.Context()) }()
	wait.Until(t, "the table is read", func() bool {
		return pgtest.Value[bool](t, f.db, "select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'advisory')")
	})
	pool, err := postgres.Open(t.Context(), f.db.URL+"&lock_timeout=1s", postgres.WithClock(f.db.Clock), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	params := ExchangeParams{Code: code, RedirectURI: callback, CodeVerifier: verifier}
	if _, err := New(pool, f.keys, f.settings).Exchange(t.Context(), f.as(f.client.ID), params); err != nil {
		t.Errorf("the exchange: %v", err)
	}
	if err := reading.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := wait.For(t, "the users are told", told); err != nil {
		t.Error(err)
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from notices where data ->> 'by' = 'lapse'"); n != 1 {
		t.Errorf("%d users are told, want 1", n)
	}
}
