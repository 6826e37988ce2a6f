package timezone

import (
	"testing"

	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Users who are stored with a former name have the canonical one after the migrations, and others keep what they have. A new line of
// former names needs a new migration.
func TestStoredNames(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	files := pgtest.Migrations(t, nil)
	for name := range files {
		if name >= "0017" {
			delete(files, name)
		}
	}
	if _, err := migrate.ApplyFrom(t.Context(), files, db.URL, migrate.Up, wait.Limit); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Mars/Olympus": "Mars/Olympus"}
	var names []string
	for name, same := range canonical {
		want[name] = same
	}
	for name := range want {
		names = append(names, name)
	}
	db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), replace(name, '+', 'plus') || '@example.com', name, '2020-01-01', now() from unnest($1::text[]) as name`, names)
	unmoved := pgtest.Value[[]string](t, db, "select array_agg(ctid::text || xmin::text order by user_id) from users where timezone = any ($1)",
		[]string{"Mars/Olympus", "UTC", "Europe/Berlin"})
	if _, err := migrate.Apply(t.Context(), db.URL, migrate.Up); err != nil {
		t.Fatal(err)
	}
	for name, want := range want {
		got := pgtest.Value[string](t, db, "select timezone from users where email = replace($1, '+', 'plus') || '@example.com'", name)
		if got != want {
			t.Errorf("%s became %s, want %s", name, got, want)
		}
	}
	still := pgtest.Value[[]string](t, db, "select array_agg(ctid::text || xmin::text order by user_id) from users where email = any ($1)",
		[]string{"Mars/Olympus@example.com", "UTC@example.com", "Europe/Berlin@example.com"})
	for i := range unmoved {
		if still[i] != unmoved[i] {
			t.Error("a row is written that had the canonical name")
		}
	}
}
