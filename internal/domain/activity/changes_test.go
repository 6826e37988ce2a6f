package activity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// watcher is a client with a webhook that a user is connected with since 10 April 2026.
func (w world) watcher(t testing.TB, user uuid.UUID, scopes scope.Set) uuid.UUID {
	t.Helper()
	id := w.Client(t).ID
	w.Webhook(t, id)
	w.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
		refresh_generation, refresh_hash, refresh_deadline)
		values ($1, $2, gen_random_uuid(), 1, 'authorized', $3, '2026-04-10', connect_now(), 1, sha256(''), connect_now() + '90 days')`,
		user, id, int16(scopes))
	return id
}

// takeChanges are the changes noted for a client: the scopes that see them, first and last date. They are gone then.
func (w world) takeChanges(t testing.TB, client uuid.UUID) []string {
	t.Helper()
	rows, err := w.Pool.Query(t.Context(), `
		with taken as (delete from webhook_changes where client_id = $1 returning *)
		select concat_ws(' ', datasets, first_date, last_date) from taken order by change_id`, client)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Decisions, section 5: whatever changes rows that a connection may read is noted for it, in the same transaction, with
// the dates before and after; what changes nothing is not. 1 stands for daily steps, 2 for the daily distance, 4 for rides.
func TestChangesAreNoted(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	client := w.watcher(t, user, scope.All)
	put := func(batch activity.Batch) func() error {
		return func() error { _, err := w.Put(t.Context(), batch); return err }
	}
	steps := func(rows string) func() error {
		return func() error {
			_, err := w.ImportDailySteps(t.Context(), strings.NewReader(stepsHeader+names.Replace(rows)), activity.ImportOptions{})
			return err
		}
	}
	rides := func(rows string) func() error {
		return func() error {
			_, err := w.ImportCyclingActivities(t.Context(), strings.NewReader(ridesHeader+names.Replace(rows)), activity.ImportOptions{})
			return err
		}
	}
	correction := func(date string, delta int) activity.Batch {
		return activity.Batch{StepCorrections: []activity.AdjustmentRecord{
			{UserID: user, ID: uuid.UUID{7}, Date: day(date), Delta: delta},
		}}
	}
	adjustment := func(date string, delta int) activity.Batch {
		return activity.Batch{CyclingAdjustments: []activity.AdjustmentRecord{
			{UserID: user, ID: uuid.UUID{7}, Date: day(date), Delta: delta},
		}}
	}
	for _, step := range []struct {
		name string
		act  func() error
		want []string
	}{
		{"an import of steps", steps("U,2026-04-12,5\nU,2026-04-11,5\n"), []string{"1 2026-04-11 2026-04-12"}},
		{"the same again", steps("U,2026-04-12,5\nU,2026-04-11,5\n"), nil},
		{"one day of two changed", steps("U,2026-04-12,6\nU,2026-04-11,5\n"), []string{"1 2026-04-12 2026-04-12"}},
		{"new days and changed ones", steps("U,2026-04-12,7\nU,2026-04-14,5\n"), []string{"1 2026-04-12 2026-04-14"}},
		{"days before the history", steps("U,2026-04-08,5\nU,2026-04-09,5\n"), nil},
		{"days before the history and after", steps("U,2026-04-07,5\nU,2026-04-10,5\n"), []string{"1 2026-04-10 2026-04-10"}},
		{"a refused file", func() error { _ = steps("U,2026-04-20,5\nU,2026-04-21,x\n")(); return nil }, nil},
		{"a ride", rides("U,far,2026-04-12T23:50:00,2026-04-13T00:20:00,900\n"), []string{"6 2026-04-12 2026-04-12"}},
		{"a ride moves to another day", rides("U,far,2026-04-15T10:00:00,,900\n"),
			[]string{"6 2026-04-12 2026-04-15"}},
		{"a ride moves before the history", rides("U,far,2026-04-02T10:00:00,,900\n"), []string{"6 2026-04-15 2026-04-15"}},
		{"a ride comes back", put(activity.Batch{CyclingActivities: []activity.RideRecord{
			{UserID: user, SourceID: "far", Start: clock("2026-04-16T10:00:00"), DistanceMeters: 900},
		}}), []string{"6 2026-04-16 2026-04-16"}},
		{"a ride is removed", put(activity.Batch{Removals: []activity.RideRecord{{UserID: user, SourceID: "far"}}}),
			[]string{"6 2026-04-16 2026-04-16"}},
		{"nothing is removed", put(activity.Batch{Removals: []activity.RideRecord{{UserID: user, SourceID: "far"}}}), nil},
		{"a correction", put(correction("2026-04-12", -3)), []string{"1 2026-04-12 2026-04-12"}},
		{"the same correction", put(correction("2026-04-12", -3)), nil},
		{"a correction of another day", put(correction("2026-04-11", -3)), []string{"1 2026-04-11 2026-04-12"}},
		{"an adjustment", put(adjustment("2026-04-12", 30)), []string{"2 2026-04-12 2026-04-12"}},
		{"another adjustment by hand", func() error {
			_, err := w.Adjust(t.Context(), activity.AdjustedCycling, activity.AdjustmentRecord{UserID: user, Date: day("2026-04-13"), Delta: 5, Note: "n"})
			return err
		},
			[]string{"2 2026-04-13 2026-04-13"}},
		{"an adjustment before the history", func() error {
			_, err := w.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: user, Date: day("2026-04-09"), Delta: 5, Note: "n"})
			return err
		}, nil},
	} {
		if err := step.act(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
		if diff := cmp.Diff(step.want, w.takeChanges(t, client), cmpopts.EquateEmpty(), sorted); diff != "" {
			t.Errorf("%s: changes (-want +got):\n%s", step.name, diff)
		}
	}
}

// Only connections that may read the rows hear of them: authorized ones with the scope, whose client has a webhook that
// was not stopped. So it is as a role of the database that cannot set foreign keys aside.
func TestChangesAreNotedForWhoMayRead(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	other := w.newUser(t, "UTC")
	writers := []*activity.Store{w.Store}
	if !pgtest.OnCluster() { // where the role must own the tables (docs/scaling.md)
		writers = append(writers, activity.New(w.poolOfPlainRole(t), nil, activity.Settings{}))
	}
	change := func(t *testing.T, id uuid.UUID, sql string) {
		t.Helper()
		w.Exec(t, sql, id)
	}
	for name, test := range map[string]struct {
		scopes scope.Set
		change string
		want   []string
	}{
		"all scopes":  {scope.All, "", []string{"1 2026-04-12 2026-04-12", "6 2026-04-12 2026-04-12"}},
		"steps alone": {scope.DailySteps, "", []string{"1 2026-04-12 2026-04-12"}},
		"rides alone": {scope.CyclingActivities, "", []string{"4 2026-04-12 2026-04-12"}},
		"no webhook":  {scope.All, "delete from webhook_endpoints where client_id = $1", nil},
		"stopped":     {scope.All, "update webhook_endpoints set stopped_at = connect_now() where client_id = $1", nil},
		"revoked":     {scope.All, "update connections set state = 'revoked', refresh_hash = null where client_id = $1", nil},
		"lapsed, by a clock that may be wrong": {
			scope.All, "update connections set refresh_deadline = connect_now() where client_id = $1",
			[]string{"1 2026-04-12 2026-04-12", "6 2026-04-12 2026-04-12"},
		},
		"another user":  {scope.All, "", nil},
		"from tomorrow": {scope.All, "update connections set history_from = '2026-04-13' where client_id = $1", nil},
	} {
		of := user
		if name == "another user" {
			of = other
		}
		client := w.watcher(t, of, test.scopes)
		if test.change != "" {
			change(t, client, test.change)
		}
		for _, writer := range writers {
			w.Exec(t, "delete from daily_steps")
			w.Exec(t, "delete from cycling_activities")
			w.Exec(t, "delete from webhook_changes")
			if _, err := writer.ImportDailySteps(t.Context(), strings.NewReader(stepsHeader+names.Replace("U,2026-04-12,5\n")), activity.ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := writer.ImportCyclingActivities(t.Context(),
				strings.NewReader(ridesHeader+names.Replace("U,r,2026-04-12T08:00:00,,5\n")), activity.ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, w.takeChanges(t, client), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// A connection that is authorized while an import stores its rows hears of them: what the client reads before the import ends lacks them. They
// have changed when the import ends, as nobody could read them before.
func TestChangesOfAnImportAreNotedAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	clients := map[uuid.UUID][]string{w.watcher(t, user, scope.DailySteps): {"1 2026-04-12 2026-04-13"}}
	file := stepsHeader + names.Replace("U,2026-04-09,5\nU,2026-04-12,5\nU,2026-04-13,5\n")
	var stored time.Time
	if _, err := w.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{Progress: func(p intake.Progress) {
		if p.Storing && p.Stored == 3 {
			clients[w.watcher(t, user, scope.All)] = []string{"1 2026-04-12 2026-04-13"}
			clients[w.watcher(t, user, scope.CyclingDaily)] = nil
			stored = pgtest.Value[time.Time](t, w.DB, "select connect_now()")
		}
	}}); err != nil {
		t.Fatal(err)
	}
	if at := pgtest.Value[time.Time](t, w.DB, "select min(changed_at) from webhook_changes"); at.Before(stored) {
		t.Errorf("the rows changed at %s, and the import ended after %s", at, stored)
	}
	for client, want := range clients {
		if diff := cmp.Diff(want, w.takeChanges(t, client), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	}
}
