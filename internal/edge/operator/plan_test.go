package operator

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// A page of a list reads about as many rows as it has, however many there are and wherever it begins: an index has its order.
func TestListsUseIndexes(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, `insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads, created_at)
		select gen_random_uuid(), 'Partner ' || n, 'https://p.example/cb', 7, sha256(n::text::bytea), 1, 1, 1, now() - n * interval '1 minute'
		from generate_series(1, 500) n`)
	db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(1, 1000) n`)
	db.Exec(t, `insert into user_addresses select email, user_id, email from users`)
	db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at, refresh_generation,
			refresh_deadline)
		select user_id, client_id, gen_random_uuid(), 1, 'revoked', 7, '2026-01-01', now(), 1, now()
		from users, (select client_id from clients order by created_at limit 10) c`)
	// The rare ones are among the newest.
	db.Exec(t, `insert into audit_log (subject, user_id, client_id, actor, action, at)
		select user_id, user_id, client_id, case when n % 2500 = 0 then 'ada' else 'client' end,
			case when n % 2500 = 0 then 'webhook.replayed' else 'connection.authorized' end, now() - n * interval '1 second'
		from (select user_id, client_id, row_number() over (order by user_id) as n from connections) c`)
	db.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, state, queued, created_at)
		select user_id, client_id, 'connection.revoked', grant_id, 1, 'user_disconnected', case when n % 500 = 0 then 'failed' else 'delivered' end,
			true, now() - n * interval '1 second'
		from (select *, row_number() over (order by user_id) as n from connections) c`)
	db.Exec(t, "insert into step_corrections select user_id, '2026-01-01'::date + n, gen_random_uuid(), 1, '', now() from users, generate_series(1, 10) n")
	db.Exec(t, "insert into cycling_adjustments select user_id, date, gen_random_uuid(), 1, '', now() from step_corrections")
	db.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
		select client_id, true, now() - n * interval '1 second', 'x', 400, 'x', 'x', 1 from clients, generate_series(1, 20) n`)
	db.Exec(t, `insert into client_error_counts
		select client_id, true, '2026-01-01'::date + n, 'x', 400, 'x', 1 from clients, generate_series(1, 20) n`)
	db.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status)
		select user_id, event_id, a, created_at, 1, 200 from webhook_events, generate_series(1, 2) a`)
	db.Exec(t, "insert into grant_directory select grant_id, user_id, client_id from connections")
	db.Exec(t, "insert into daily_steps select user_id, date, 1 from step_corrections")
	db.Exec(t, "insert into cycling_activities (user_id, start_time, distance_meters, source_id) select user_id, date, 1, date::text from step_corrections")
	db.Exec(t, `insert into sign_ins (sign_in_id, email, user_id, seed, budget, expires_at)
		select user_id, email, user_id, '0123456789abcdef', sha256('x'), now() + interval '1 day' from users`)
	db.Exec(t, "insert into account_sessions select user_id, sha256('x'), now() + interval '1 day' from users")
	db.Exec(t, "insert into known_browsers select user_id, user_id, '', now() from users")
	db.Exec(t, `insert into authorization_requests (request_id, browser_hash, client_id, redirect_uri, scopes, state, code_challenge, expires_at,
			user_id, session_hash)
		select user_id, sha256('x'), client_id, '', 1, '0123456789012345678901', sha256('x'), now() + interval '1 day', user_id, sha256('x')
		from users, (select client_id from clients limit 1) c`)
	deleted := pgtest.Value[uuid.UUID](t, db, "delete from grant_directory where grant_id = (select max(grant_id::text)::uuid from grant_directory) returning grant_id")
	db.Exec(t, "vacuum analyze")
	user := pgtest.Value[uuid.UUID](t, db, "select user_id from users order by user_id offset 500 limit 1")
	partner := pgtest.Value[uuid.UUID](t, db, "select client_id from clients order by created_at limit 1")
	email := pgtest.Value[string](t, db, "select email from users where user_id = $1", user)
	middle := pgtest.Value[time.Time](t, db, "select at from audit_log order by at offset 5000 limit 1")

	queries := new(pgtest.Statements)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithTracer(queries))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const limit = 20
	clients := client.NewRegistry(pool, oauth.EndConnectionsOfClient)
	server := oauth.New(pool, nil, oauth.Settings{})
	log := audit.New(pool, wait.Patient, 0)
	events := webhook.New(pool, nil, webhook.Settings{})
	recorded := activity.New(pool, nil, activity.Settings{})
	accounts := account.New(pool, nil, nil, account.Settings{})
	finder := lookup.New(pool)
	grant := pgtest.Value[uuid.UUID](t, db, "select grant_id from connections where user_id = $1 and client_id = $2", user, partner)
	listAudit := func(filter audit.Filter, after page.Key) func() error {
		return func() error { _, err := log.List(t.Context(), filter, after, limit); return err }
	}
	listEvents := func(filter webhook.Filter) func() error {
		filter.Limit = limit
		return func() error { _, err := events.Events(t.Context(), filter); return err }
	}
	listConnections := func(filter oauth.Filter, after page.Key) func() error {
		return func() error { _, err := server.Connections(t.Context(), filter, after, limit); return err }
	}
	for name, list := range map[string]func() error{
		"clients": func() error {
			_, err := clients.List(t.Context(), client.Filter{}, page.Key{At: middle}, limit)
			return err
		},
		"connections":                      listConnections(oauth.Filter{}, page.Key{Of: user}),
		"connections of a user":            listConnections(oauth.Filter{UserID: &user}, page.Key{}),
		"connections of a client":          listConnections(oauth.Filter{ClientID: &partner}, page.Key{Of: user, ID: partner}),
		"connections of both":              listConnections(oauth.Filter{UserID: &user, ClientID: &partner}, page.Key{}),
		"audit log":                        listAudit(audit.Filter{}, page.Key{At: middle}),
		"audit log since":                  listAudit(audit.Filter{Since: middle}, page.Key{}),
		"audit log of an actor":            listAudit(audit.Filter{Actor: "ada"}, page.Key{}),
		"audit log of who did nothing":     listAudit(audit.Filter{Actor: "grace"}, page.Key{}),
		"audit log of an action":           listAudit(audit.Filter{Action: "webhook.replayed"}, page.Key{}),
		"audit log of a common action":     listAudit(audit.Filter{Action: "connection.authorized"}, page.Key{At: middle}),
		"audit log of a user":              listAudit(audit.Filter{UserID: user}, page.Key{}),
		"audit log of a client":            listAudit(audit.Filter{ClientID: partner}, page.Key{At: middle}),
		"ends of a client":                 listAudit(audit.Filter{ClientID: partner, Ends: true}, page.Key{}),
		"ends for a reason":                listAudit(audit.Filter{ClientID: partner, Ends: true, End: "lapsed"}, page.Key{}),
		"ends of a connection":             listAudit(audit.Filter{ClientID: partner, UserID: user, Ends: true}, page.Key{}),
		"audit log of a client's actor":    listAudit(audit.Filter{ClientID: partner, Actor: "ada"}, page.Key{}),
		"audit log of a time and an actor": listAudit(audit.Filter{Actor: "ada", Since: middle, Until: middle.Add(time.Hour)}, page.Key{}),
		"events":                           listEvents(webhook.Filter{After: page.Key{At: middle}}),
		"events of a client":               listEvents(webhook.Filter{ClientID: partner, After: page.Key{At: middle}}),
		"failed events":                    listEvents(webhook.Filter{State: webhook.Failed}),
		"pending events":                   listEvents(webhook.Filter{State: webhook.Pending}),
		"failed events of a client":        listEvents(webhook.Filter{State: webhook.Failed, ClientID: partner}),
		"latest events of a client":        listEvents(webhook.Filter{ClientID: partner, LatestFirst: true}),
		"later events of a client": listEvents(webhook.Filter{
			ClientID: partner, LatestFirst: true, After: page.Key{At: middle},
		}),
		"latest failed of a client": listEvents(webhook.Filter{State: webhook.Failed, ClientID: partner, LatestFirst: true}),
		"what failed of a client":   func() error { _, _, err := events.Waiting(t.Context(), partner); return err },
		"a connection":              func() error { _, err := server.Connection(t.Context(), user, partner); return err },
		"grants":                    func() error { _, err := server.Grants(t.Context(), partner, []uuid.UUID{user}); return err },
		"a grant":                   func() error { _, _, err := finder.OfGrant(t.Context(), grant); return err },
		"an ended grant": func() error {
			_, _, err := finder.OfGrant(t.Context(), deleted)
			return err
		},
		"events of a grant":        listEvents(webhook.Filter{ClientID: partner, UserID: user}),
		"all events of a grant":    listEvents(webhook.Filter{UserID: user, GrantID: grant}),
		"latest events of a grant": listEvents(webhook.Filter{ClientID: partner, UserID: user, LatestFirst: true}),
		"requests":                 func() error { _, err := server.CountRequests(t.Context(), user); return err },
		"endings": func() error {
			_, err := accounts.CountEndings(t.Context(), account.User{ID: user, Email: email})
			return err
		},
		"amount": func() error { _, err := recorded.Count(t.Context(), user, 10_000); return err },
		"a day": func() error {
			_, err := recorded.Day(t.Context(), activity.AdjustedSteps, user, time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC))
			return err
		},
		"a day of cycling": func() error {
			_, err := recorded.Day(t.Context(), activity.AdjustedCycling, user, time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC))
			return err
		},
		"events of a connection": func() error {
			_, err := events.EventsOf(t.Context(), user, partner, page.Key{}, limit)
			return err
		},
		"latest adjustments": func() error {
			_, err := recorded.LatestAdjustments(t.Context(), user, []activity.Adjusted{activity.AdjustedSteps, activity.AdjustedCycling},
				page.Key{}, limit)
			return err
		},
		"activity": func() error {
			_, err := recorded.View(t.Context(), user, activity.Range{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)})
			return err
		},
		"adjustments": func() error {
			_, err := recorded.Adjustments(t.Context(), user, page.Key{}, limit)
			return err
		},
		"errors": func() error {
			_, err := usage.New(pool, wait.Patient, slog.New(slog.DiscardHandler), time.Now).Errors(t.Context(), partner, usage.ErrorFilter{}, page.Key{}, limit)
			return err
		},
		"kinds of errors": func() error {
			_, err := usage.New(pool, wait.Patient, slog.New(slog.DiscardHandler), time.Now).ErrorCounts(t.Context(), partner)
			return err
		},
		"an id": func() error {
			_, err := finder.Find(t.Context(), user.String())
			return err
		},
		"a hash of a grant": func() error {
			_, err := finder.Find(t.Context(), "0123456789abcdef")
			return err
		},
		"an address or a name": func() error {
			_, err := finder.Find(t.Context(), email)
			return err
		},
		"a name": func() error {
			_, err := finder.ClientNamed(t.Context(), "PARTNER 7")
			return err
		},
		"an address": func() error {
			_, err := accounts.FindUser(t.Context(), email)
			return err
		},
	} {
		*queries = nil
		if err := list(); err != nil {
			t.Fatal(err)
		}
		queries.Explain(t, pool, func(sql string, plan []pgtest.PlanNode) {
			most := float64(20 * limit)
			if name == "audit log of a client's actor" {
				most = 1000 // a slice of the client's
			}
			rows := 0.0
			for _, n := range plan {
				if strings.Contains(n.Type, "Scan") && n.Table != "" {
					rows += n.Read()
				}
				if n.Type == "Seq Scan" {
					most += 500
					// The names of some hundred partners, which a page joins.
					if n.Table != "clients" || name == "clients" {
						t.Errorf("%s: the whole of %s is read", name, n.Table)
					}
				}
			}
			if rows > most {
				t.Errorf("%s: %.0f rows are read for a page of %d", name, rows, limit)
			}
		})
	}
}
