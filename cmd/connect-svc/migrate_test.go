package main

import (
	"strings"
	"testing"

	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/testing/pgtest"
)

func env(db *pgtest.DB) []string {
	return []string{"CONNECT_DATABASE_URL=" + db.URL, "CONNECT_OPERATOR=grace"}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	status := func() (applied, pending int) {
		for _, m := range succeedJSON[[]statusJSON](t, env(db), "", "migrate", "status") {
			if m.AppliedAt == nil {
				pending++
			} else {
				applied++
			}
		}
		return applied, pending
	}

	applied, all := status()
	if applied != 0 || all == 0 {
		t.Fatalf("an empty database: %d applied, %d pending", applied, all)
	}
	if up := succeedJSON[struct{ Migrated []migrationJSON }](t, env(db), "", "migrate", "up"); len(up.Migrated) != all {
		t.Errorf("up applied %d of %d", len(up.Migrated), all)
	}
	if again := succeed(t, env(db), "", "migrate", "up"); again != "nothing to do\n" {
		t.Errorf("a second up: %q", again)
	}
	if applied, pending := status(); applied != all || pending != 0 {
		t.Errorf("after up: %d applied, %d pending", applied, pending)
	}
	for i := range all {
		if down := succeedJSON[struct{ Migrated []migrationJSON }](t, env(db), "", "migrate", "down", "--yes"); len(down.Migrated) != 1 {
			t.Fatalf("down %d took back %d", i, len(down.Migrated))
		}
	}
	if applied, pending := status(); applied != 0 || pending != all {
		t.Errorf("after all downs: %d applied, %d pending", applied, pending)
	}
	if down := succeedJSON[struct{ Migrated []migrationJSON }](t, env(db), "", "migrate", "down", "--yes"); len(down.Migrated) != 0 {
		t.Errorf("one down more took back %v", down.Migrated)
	}
	if text := succeed(t, env(db), "", "migrate", "status"); strings.Count(text, "pending") != all {
		t.Errorf("the table does not say pending %d times:\n%s", all, text)
	}
	succeed(t, env(db), "", "migrate", "up")
	// The operator's own events, which no program of 1.0.0 knows, go with the migrations. Those of a client stay.
	db.Webhook(t, webhook.Operator)
	db.Exec(t, `insert into webhook_events (user_id, client_id, about_client_id, type, grant_id, connection_version, reason) values
		(gen_random_uuid(), operator_id(), $1, 'connection.ended', gen_random_uuid(), 1, 'lapsed'),
		(gen_random_uuid(), $1, null, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected')`, db.Client(t).ID)
	refuse(t, env(db), statusUsage, []string{"--to", `"0.9.0"`, "1.0.0"}, "migrate", "down", "--to", "0.9.0", "--yes")
	if down := succeedJSON[struct{ Migrated []migrationJSON }](t, env(db), "", "migrate", "down", "--to", "v1.0.0", "--yes"); len(down.Migrated) != all-10 {
		t.Errorf("down to 1.0.0 took back %v", down.Migrated)
	}
	if again := succeed(t, env(db), "", "migrate", "down", "--to", "1.0.0"); again != "nothing to do\n" { // and asks nothing
		t.Errorf("a second down to 1.0.0: %q", again)
	}
	if left := pgtest.Value[string](t, db, "select (select count(*) from webhook_endpoints) || ' ' || string_agg(type, ' ') from webhook_events"); left != "0 connection.revoked" {
		t.Errorf("of endpoints and events there are %s", left)
	}
	succeed(t, env(db), "", "migrate", "up")
	db.Exec(t, "insert into goose_db_version (version_id, is_applied) values (9001, true)")
	refuse(t, env(db), statusFailed, []string{"the database is at migration 9001", "run the newer program"}, "migrate", "down")
}

func TestDistributeOnOnePostgreSQL(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, shards := range []string{"0", "1025", "many"} {
		refuse(t, env(db), statusUsage, []string{"--shards"}, "migrate", "distribute", "--shards", shards)
	}
	refuse(t, env(db), statusFailed, []string{"distribute: the database has no Citus"}, "migrate", "distribute")
	succeed(t, env(db), "", "user", "create", "--email", "robin@example.com", "--timezone", "UTC", "--registered-on", "2026-01-31")
}

// A flag of the same name wins over the variable.
func TestSettingAsFlag(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	succeed(t, []string{"CONNECT_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}, "",
		"migrate", "status", "--database-url", db.URL)
}

func TestDatabaseCommandsWithoutADatabase(t *testing.T) {
	t.Parallel()
	refuse(t, nil, statusUsage, []string{"CONNECT_DATABASE_URL", "--database-url", "is not set", "accepted: postgres://"},
		"migrate", "up")
	refuse(t, []string{"CONNECT_DATABASE_URL=mysql://u:hush@h/n"}, statusUsage, []string{"CONNECT_DATABASE_URL"}, "migrate", "up")
	down := call(t, []string{"CONNECT_DATABASE_URL=postgres://u:hush@127.0.0.1:1/n"}, "", "migrate", "up")
	checkRefusal(t, down, statusFailed, []string{"127.0.0.1:1", "connection refused"})
	if strings.Contains(down.stderr, "hush") {
		t.Errorf("the password is in the error: %s", down.stderr)
	}
}
