package users_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	webhookdb "connect-svc/gen/db/webhook"
	"connect-svc/internal/admin/audit"
	"connect-svc/internal/app"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Nothing of a deleted user is in any column of any table, and another user keeps everything.
func TestDeletedUserLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newLife(t)
	ada, bob := w.know(t, "ada"), w.know(t, "bob")
	before := w.everything(t)
	for what, trace := range ada.traces {
		if len(tablesWith(before, trace)) == 0 {
			t.Errorf("the search does not find %s while the user is there", what)
		}
	}
	for _, table := range w.tablesOfUsers(t) {
		if n := w.rowsOf(t, table, ada.ID); n == 0 {
			t.Errorf("%s holds nothing of the user: the test must put something there", table)
		}
	}

	ended, err := w.service.Accounts.DeleteUser(t.Context(), ada.ID)
	if err != nil || ended != 1 {
		t.Fatalf("%d connections ended, want 1: %v", ended, err)
	}

	after := w.everything(t)
	for what, trace := range ada.traces {
		if tables := tablesWith(after, trace); len(tables) != 0 {
			t.Errorf("%s is still in %v", what, tables)
		}
	}
	if tables := tablesWith(after, ada.tokens.GrantID.String()); !slices.Equal(tables, []string{"webhook_events"}) {
		t.Errorf("the grant is still in %v, want it only in what the partner is told", tables)
	}
	if n := pgtest.Value[int64](t, w.db, "select sum(cardinality(grant_ids)) from client_errors"); n != 3 {
		t.Errorf("refused requests have %d other grants, want 3", n)
	}
	tables := tablesWith(after, ada.ID.String())
	if slices.Sort(tables); !slices.Equal(tables, []string{"audit_log", "webhook_events"}) {
		t.Errorf("the user's id is still in %v, want it only in the audit log and beside what the partner is told", tables)
	}
	w.announced(t, ada)
	for _, table := range w.tablesOfUsers(t) {
		if n := w.rowsOf(t, table, bob.ID); n == 0 {
			t.Errorf("%s has lost what it held of another user", table)
		}
	}
	w.works(t, bob)
	w.dead(t, ada)
	if _, err := w.service.Accounts.GetUser(t.Context(), ada.ID); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("the user: %v", err)
	}
	if _, err := w.service.Accounts.DeleteUser(t.Context(), ada.ID); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("deleted twice: %v", err)
	}

	// The log knows what happened, for who has the id.
	log, err := audit.New(w.db.Pool, wait.Patient, 0).List(t.Context(), audit.Filter{UserID: ada.ID}, page.Key{}, 1000)
	events := log.Events
	if err != nil || len(events) < 2 {
		t.Fatalf("%d events: %v", len(events), err)
	}
	var last []string
	for _, e := range events[len(events)-2:] {
		last = append(last, fmt.Sprint(e.Actor, " ", e.Action, " ", e.ConnectionVersion, " ", string(e.Detail)))
	}
	if diff := cmp.Diff([]string{
		`operator connection.disconnected 3 {"reason": "account_deleted"}`,
		`operator user.deleted 0 {"connections": 1}`,
	}, last); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}

	// The address is free; the id, which old credentials name, is not.
	again := account.NewUser{ID: ada.ID, Email: ada.Email, Timezone: "UTC", RegisteredOn: time.Now()}
	if _, err := w.service.Accounts.CreateUser(t.Context(), again); !errors.Is(err, account.ErrUserDeleted) {
		t.Errorf("the id again: %v", err)
	}
	again.ID = uuid.Nil
	if _, err := w.service.Accounts.CreateUser(t.Context(), again); err != nil {
		t.Errorf("the address again: %v", err)
	}
}

// A fault at the last step leaves the user as they were.
func TestDeleteUserIsWhole(t *testing.T) {
	pgtest.NotOnCluster(t, "a shard has no trigger")
	t.Parallel()
	w := newLife(t)
	user := w.know(t, "ada")
	w.db.Exec(t, `create function refuse() returns trigger language plpgsql as $$ begin raise 'disk full'; end $$`)
	w.db.Exec(t, `create constraint trigger refuse after insert on audit_log initially deferred
		for each row when (new.action = 'user.deleted') execute function refuse()`)
	before := w.everything(t)
	if _, err := w.service.Accounts.DeleteUser(t.Context(), user.ID); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("deleted: %v", err)
	}
	if diff := cmp.Diff(before, w.everything(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	w.works(t, user)
}

// A merge of the user's changes that is under way leaves no event about the activity.
func TestDeletionDuringAMerge(t *testing.T) {
	pgtest.NotOnCluster(t, "the node that is asked does not know who waits on the others")
	t.Parallel()
	w := newLife(t)
	ada := w.know(t, "ada")
	deleted := make(chan error, 1)
	err := postgres.InTx(t.Context(), w.db.Pool, func(tx pgx.Tx) error {
		merged, err := webhookdb.New(tx).MergeWebhookChanges(t.Context(), webhookdb.MergeWebhookChangesParams{
			UserIds: []uuid.UUID{ada.ID},
		})
		if err != nil || merged != 1 {
			t.Errorf("%d connections, want 1: %v", merged, err)
		}
		go func() { _, err := w.service.Accounts.DeleteUser(t.Context(), ada.ID); deleted <- err }()
		wait.Until(t, "the deletion waits for the merge", func() bool { return w.db.Waiting(t) == 1 })
		return err
	})
	if err = errors.Join(err, wait.For(t, "the deletion", deleted)); err != nil {
		t.Fatal(err)
	}
	w.announced(t, ada)
}

// life is a service with two partners.
type life struct {
	service        *app.App
	db             *pgtest.DB
	partner, other pgtest.Client
}

func newLife(t *testing.T) *life {
	t.Helper()
	db, keyset := pgtest.New(t), filepath.Join(t.TempDir(), "keyset.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		t.Fatal(err)
	}
	w := &life{e2e.Open(t, db, keyset), db, db.Client(t), db.Client(t)}
	db.Webhook(t, w.partner.ID)
	return w
}

// announced takes what the partner is told of the end, under the name that the partner knows: nothing else of the user is
// in it, and it waits to be delivered.
func (w *life) announced(t *testing.T, user known) {
	t.Helper()
	got := pgtest.Value[string](t, w.db, `select string_agg(concat_ws(' ', type, reason, connection_version, state), ', ')
		from webhook_events where grant_id = $1`, user.tokens.GrantID)
	if want := "connection.revoked account_deleted 2 pending"; got != want {
		t.Errorf("the partner is told %q, want %q", got, want)
	}
}

// known is a user of whom there is something in every table that may hold it.
type known struct {
	pgtest.User
	tokens oauth.Tokens
	code   string            // in flight
	traces map[string]string // texts that are nowhere but with this user
}

func (w *life) know(t *testing.T, name string) known {
	t.Helper()
	email := name + ".lovelace@users.example"
	w.askForCode(t, email) // before there is an account
	user := known{User: w.db.User(t, func(u *pgtest.User) { u.Email = strings.ToUpper(email) })}
	w.askForCode(t, email)
	edgetest.Connect(t, w.service.OAuth, w.other, scope.All, user.ID)
	if err := w.service.OAuth.DisconnectUser(t.Context(), user.ID, w.other.ID); err != nil {
		t.Fatal(err)
	}
	first := edgetest.Connect(t, w.service.OAuth, w.partner, scope.All, user.ID)
	if err := w.service.OAuth.Revoke(t.Context(), edgetest.Credentials(w.partner), first.AccessToken); err != nil {
		t.Fatal(err)
	}
	user.tokens = edgetest.Connect(t, w.service.OAuth, w.partner, scope.All, user.ID)
	user.code = edgetest.Code(t, w.service.OAuth, w.partner, scope.All, user.ID)
	edgetest.Consenting(t, w.service.OAuth, w.partner, scope.All, user.ID)

	steps, meters := 40_000_000+int(user.ID[0])<<8+int(user.ID[1]), 70_000_000+int(user.ID[2])<<8+int(user.ID[3])
	today := time.Now().UTC().Truncate(24 * time.Hour)
	if _, err := w.service.Activity.Put(t.Context(), activity.Batch{
		DailySteps: []activity.StepsRecord{{UserID: user.ID, Date: today, Steps: steps}},
		CyclingActivities: []activity.RideRecord{
			{UserID: user.ID, SourceID: name + "-ride", Start: today.Add(7 * time.Hour), DistanceMeters: meters},
		},
	}); err != nil {
		t.Fatal(err)
	}
	w.db.Exec(t, `insert into account_sessions values ($1, sha256(uuid_send($1)), now() + interval '30 minutes')`, user.ID)
	w.db.Exec(t, `insert into known_browsers values ($1, gen_random_uuid(), $2, now())`, user.ID, name+"'s browser")
	w.db.Exec(t, `insert into notices (recipient, kind, data) values ($1, 'unheard', jsonb_build_object('browser', $2::text))`, user.ID, name+"'s browser")
	w.db.Exec(t, `insert into step_corrections values ($1, $2, gen_random_uuid(), 500, $3, now())`, user.ID, today, name+"'s phone")
	w.db.Exec(t, `insert into cycling_adjustments values ($1, $2, gen_random_uuid(), -500, $3, now())`, user.ID, today, name+"'s tunnel")
	w.db.Exec(t, `with event as (
			insert into webhook_events (user_id, client_id, type, grant_id, connection_version, datasets, first_date, last_date, queued)
			values ($1, $2, 'activity.updated', $3, 1, 1, $4, $4, true) returning *
		), queued as (
			insert into webhook_queue (event_id, user_id, client_id, created_at, next_attempt_at)
			select event_id, user_id, client_id, created_at, created_at + interval '1 hour' from event
		)
		insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status)
		select user_id, event_id, 1, created_at, 20, 503 from event`, user.ID, w.partner.ID, user.tokens.GrantID, today)
	w.db.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, grant_ids)
		values ($1, true, now(), 'requestToken', 400, 'invalid_grant', 'the user disconnected on 2026-03-10', 2, array[gen_random_uuid(), $2::uuid])`,
		w.partner.ID, user.tokens.GrantID)

	user.traces = map[string]string{
		"the e-mail address":            email,
		"the hash of the refresh token": fmt.Sprintf("%x", sha256.Sum256([]byte(user.tokens.RefreshToken))),
		"the steps":                     fmt.Sprint(steps),
		"the ride":                      name + "-ride",
		"its distance":                  fmt.Sprint(meters),
		"the note of a correction":      name + "'s phone",
		"the note of an adjustment":     name + "'s tunnel",
	}
	return user
}

func (w *life) askForCode(t *testing.T, email string) {
	t.Helper()
	if err := w.service.Accounts.SendCode(t.Context(), account.CodeRequest{
		SignIn: uuid.New(), Email: email, Network: netip.MustParseAddr("192.0.2.1"), Partner: "Ride Club",
	}); err != nil {
		t.Fatal(err)
	}
}

func (w *life) works(t *testing.T, user known) {
	t.Helper()
	if _, err := w.service.OAuth.Authenticate(t.Context(), user.tokens.AccessToken); err != nil {
		t.Errorf("the access token: %v", err)
	}
	if _, err := w.service.OAuth.Refresh(t.Context(), edgetest.Credentials(w.partner), user.tokens.RefreshToken); err != nil {
		t.Errorf("the refresh token: %v", err)
	}
}

func (w *life) dead(t *testing.T, user known) {
	t.Helper()
	if _, err := w.service.OAuth.Authenticate(t.Context(), user.tokens.AccessToken); !errors.Is(err, oauth.ErrInvalidAccessToken) {
		t.Errorf("the access token: %v", err)
	}
	if _, err := w.service.OAuth.Refresh(t.Context(), edgetest.Credentials(w.partner), user.tokens.RefreshToken); !errors.Is(err, oauth.ErrInvalidGrant) {
		t.Errorf("the refresh token: %v", err)
	}
	if _, err := w.service.OAuth.Exchange(t.Context(), edgetest.Credentials(w.partner), oauth.ExchangeParams{
		Code: user.code, RedirectURI: w.partner.CallbackURL, CodeVerifier: edgetest.Verifier,
	}); !errors.Is(err, oauth.ErrInvalidGrant) {
		t.Errorf("the code: %v", err)
	}
	if err := w.service.OAuth.Disconnect(t.Context(), edgetest.Credentials(w.partner), user.tokens.GrantID); err != nil {
		t.Errorf("a disconnect by the client: %v", err)
	}
}

// everything is each row of the database as text, by table.
func (w *life) everything(t *testing.T) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, table := range w.names(t, `select table_name from information_schema.tables
		where table_schema = current_schema() and table_type = 'BASE TABLE'`) {
		rows[table] = w.names(t, fmt.Sprintf("select lower(r::text) from %s r order by 1", pgx.Identifier{table}.Sanitize()))
	}
	return rows
}

func tablesWith(rows map[string][]string, trace string) (tables []string) {
	for table, texts := range rows {
		if strings.Contains(strings.Join(texts, "\n"), trace) {
			tables = append(tables, table)
		}
	}
	return tables
}

func (w *life) tablesOfUsers(t *testing.T) []string {
	t.Helper()
	return w.names(t, `select c.table_name from information_schema.columns c
		join information_schema.tables using (table_schema, table_name)
		where table_schema = current_schema() and table_type = 'BASE TABLE' and c.column_name = 'user_id'`)
}

func (w *life) rowsOf(t *testing.T, table string, user uuid.UUID) int {
	t.Helper()
	return pgtest.Value[int](t, w.db, fmt.Sprintf("select count(*)::int from %s where user_id = $1", pgx.Identifier{table}.Sanitize()), user)
}

func (w *life) names(t *testing.T, query string) []string {
	t.Helper()
	rows, err := w.db.Pool.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
