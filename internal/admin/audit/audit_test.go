package audit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func newClient(t *testing.T, clients *client.Registry) client.Client {
	t.Helper()
	created, _, err := clients.Create(t.Context(), client.Registration{
		Name: "Ride Club", CallbackURL: "https://ride.example/callback", Scopes: scope.DailySteps | scope.CyclingActivities,
		Policy: client.DefaultPolicy, ContactEmail: "it@ride.example",
	})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newUser(t *testing.T, db *pgtest.DB) account.User {
	t.Helper()
	user, err := account.New(db.Pool, nil, nil, account.Settings{}).CreateUser(t.Context(), account.NewUser{
		Email: "ada@example.com", Timezone: "Europe/Berlin", RegisteredOn: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func list(t *testing.T, log *audit.Log, filter audit.Filter) []audit.Event {
	t.Helper()
	found, err := log.List(t.Context(), filter, page.Key{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return found.Events
}

func actions(events []audit.Event) (names []string) {
	for _, e := range events {
		names = append(names, e.Actor+" "+e.Action)
	}
	return names
}

func TestList(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clients, log := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient), audit.New(db.Pool, wait.Patient, 0)
	one := newClient(t, clients)
	user := newUser(t, db)
	db.Clock.Advance(24 * time.Hour)
	later := db.Clock.Now().Add(-time.Hour)
	two := newClient(t, clients)
	for range 2 { // the second time changes nothing
		if err := clients.Disable(t.Context(), one.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := clients.Enable(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := clients.RotateSecret(t.Context(), two.ID, 0); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		filter audit.Filter
		want   []string
	}{
		"all": {audit.Filter{}, []string{"operator client.created", "operator user.created", "operator client.created",
			"operator client.disabled", "operator client.enabled", "operator client.secret_replaced"}},
		"client": {audit.Filter{ClientID: one.ID}, []string{"operator client.created", "operator client.disabled",
			"operator client.enabled"}},
		"user":             {audit.Filter{UserID: user.ID}, []string{"operator user.created"}},
		"unknown user":     {audit.Filter{UserID: uuid.New()}, nil},
		"since":            {audit.Filter{Since: later, ClientID: two.ID}, []string{"operator client.created", "operator client.secret_replaced"}},
		"since, one":       {audit.Filter{Since: later, ClientID: one.ID}, []string{"operator client.disabled", "operator client.enabled"}},
		"user and client":  {audit.Filter{UserID: user.ID, ClientID: one.ID}, nil},
		"until":            {audit.Filter{Until: later, ClientID: one.ID}, []string{"operator client.created"}},
		"action":           {audit.Filter{Action: "client.created"}, []string{"operator client.created", "operator client.created"}},
		"another action":   {audit.Filter{Action: "client"}, nil},
		"actor and action": {audit.Filter{Actor: "operator", Action: "user.created"}, []string{"operator user.created"}},
		"another actor":    {audit.Filter{Actor: "ada"}, nil},
		"since the future": {audit.Filter{Since: later.Add(2 * time.Hour)}, nil},
	} {
		if diff := cmp.Diff(test.want, actions(list(t, log, test.filter))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	all := list(t, log, audit.Filter{})
	second, err := log.List(t.Context(), audit.Filter{}, all[1].Key(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(audit.Page{Events: all[2:4], Next: all[3].Key()}, second); diff != "" {
		t.Errorf("a page (-want +got):\n%s", diff)
	}
	var detail map[string]string
	if err := json.Unmarshal(all[0].Detail, &detail); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"name": "Ride Club", "callback_url": "https://ride.example/callback", "scopes": "daily_steps:read cycling_activities:read",
	}
	if diff := cmp.Diff(want, detail); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
}

// Refused and failed acts are not in the log.
func TestRefusedChangesAreNotNoted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clients, log := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient), audit.New(db.Pool, wait.Patient, 0)
	newUser(t, db)
	_, err := account.New(db.Pool, nil, nil, account.Settings{}).CreateUser(t.Context(), account.NewUser{
		Email: "ADA@example.com", Timezone: "UTC", RegisteredOn: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
	})
	if err == nil {
		t.Error("the address was taken twice")
	}
	if err := clients.Disable(t.Context(), uuid.New()); err == nil {
		t.Error("an unknown client was disabled")
	}
	if _, err := clients.RotateSecret(t.Context(), uuid.New(), 0); err == nil {
		t.Error("an unknown client has a new secret")
	}
	if diff := cmp.Diff([]string{"operator user.created"}, actions(list(t, log, audit.Filter{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Events go when their retention is over, and not before.
func TestSweep(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clients := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	newClient(t, clients)
	db.Clock.Advance(36 * time.Hour)
	newUser(t, db)
	for _, test := range []struct {
		retention time.Duration
		want      []string
	}{
		{0, []string{"operator client.created", "operator user.created"}},
		{48 * time.Hour, []string{"operator client.created", "operator user.created"}},
		{24 * time.Hour, []string{"operator user.created"}},
	} {
		log := audit.New(db.Pool, wait.Patient, test.retention)
		if err := log.Sweep(t.Context(), db.Now()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, actions(list(t, log, audit.Filter{}))); diff != "" {
			t.Errorf("kept for %s (-want +got):\n%s", test.retention, diff)
		}
	}
}

// The context's actor is the actor of every operator's act, in every domain.
func TestActor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ada := work.WithActor(t.Context(), "ada")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	clients := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	partner, _, err := clients.Create(ada, client.Registration{
		Name: "Ride Club", CallbackURL: "https://ride.example/callback", Scopes: scope.DailySteps, Policy: client.DefaultPolicy,
	})
	must(err)
	must(clients.Disable(ada, partner.ID))
	must(clients.Enable(ada, partner.ID))
	_, err = clients.RotateSecret(ada, partner.ID, 0)
	must(err)
	_, err = clients.Update(ada, partner.ID, func(r *client.Registration) { r.Name = "Walk Club" })
	must(err)

	webhooks := webhook.New(db.Pool, credential.NewTestKeyring(), webhook.Settings{})
	_, err = webhooks.SetEndpoint(ada, partner.ID, "https://ride.example/webhooks")
	must(err)
	_, err = webhooks.SetEndpoint(ada, partner.ID, "https://ride.example/events")
	must(err)
	_, err = webhooks.RotateSecret(ada, partner.ID, webhook.SecretOverlap, nil)
	must(err)

	accounts := account.New(db.Pool, nil, nil, account.Settings{
		EndConnections: oauth.EndConnectionsOfUser, EndRequests: oauth.EndRequestsOfUsers,
	})
	user, err := accounts.CreateUser(ada, account.NewUser{
		Email: "ada@example.com", Timezone: "UTC", RegisteredOn: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
	})
	must(err)
	timezone := "Asia/Tokyo"
	_, err = accounts.ChangeUser(ada, user.ID, account.UserChange{Timezone: &timezone})
	must(err)
	other := db.User(t)
	connect := func(user uuid.UUID) {
		db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
			refresh_generation, refresh_hash, refresh_deadline)
			values ($1, $2, gen_random_uuid(), 1, 'authorized', 1, '2026-01-31', now(), 1, sha256('x'), now() + interval '1 day')`,
			user, partner.ID)
	}
	connect(user.ID)
	connect(other.ID)
	server := oauth.New(db.Pool, nil, oauth.Settings{})
	must(server.DisconnectByOperator(ada, other.ID, partner.ID))
	event := pgtest.Value[uuid.UUID](t, db, "select event_id from webhook_events")
	must(webhooks.Replay(ada, event))
	must(webhooks.RemoveEndpoint(ada, partner.ID))
	_, err = accounts.DeleteUser(ada, user.ID)
	must(err)
	connect(db.User(t).ID)
	_, err = clients.Offboard(ada, partner.ID)
	must(err)

	want := []string{
		"ada client.created", "ada client.disabled", "ada client.enabled", "ada client.secret_replaced", "ada client.updated",
		"ada webhook.created", "ada webhook.url_set", "ada webhook.secret_rotated", "ada user.created", "ada user.changed",
		"ada connection.disconnected", "ada webhook.replayed", "ada webhook.removed", "ada connection.disconnected",
		"ada user.deleted", "ada client.offboarded", "ada connection.disconnected",
	}
	if diff := cmp.Diff(want, actions(list(t, audit.New(db.Pool, wait.Patient, 0), audit.Filter{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestScopesAfterADowngrade: a downgrade writes scopes as release 1.0.0 does, whose reconciliation reads no number.
func TestScopesAfterADowngrade(t *testing.T) {
	pgtest.NotOnCluster(t, "the test's clock is a function that a migration does not know")
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, `insert into audit_log (subject, user_id, actor, action, detail)
		select $1, $1, 'user', action, detail::jsonb from (values ('connection.authorized', '{"scopes": 5}'),
			('consent.allowed', '{"scopes": "cycling_daily:read"}'), ('connection.disconnected', '{}')) as entries (action, detail)`, uuid.New())
	if _, err := migrate.Apply(t.Context(), db.URL, 15); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"scopes": "daily_steps:read cycling_activities:read"}`, `{"scopes": "cycling_daily:read"}`, `{}`}
	if diff := cmp.Diff(want, pgtest.Value[[]string](t, db, "select array_agg(detail::text order by id) from audit_log")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
