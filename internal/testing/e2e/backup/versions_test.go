//go:build check

package backup_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// A backup of the oldest PostgreSQL that is supported is restored on the newest one.
func TestRestoreOnNewerPostgreSQL(t *testing.T) {
	pgtest.NotOnCluster(t, "the servers are of its own")
	output := func(args ...string) []string {
		out, err := exec.Command("../../../../.ci/postgres", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	versions, path := output(), os.Getenv("PATH")
	open := func(major string) *pgtest.DB {
		t.Setenv("PATH", output(major)[0]+":"+path)
		server, err := embedded.Start(t.Context(), embedded.Config{Ephemeral: true, Limits: wait.Patient})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		})
		db := &pgtest.DB{URL: server.URL(), URLs: []string{server.URL()}, Clock: new(clock.Clock)}
		db.Pool = db.Open(t)
		if got := pgtest.Value[string](t, db, "show server_version"); !strings.HasPrefix(got, major+".") {
			t.Fatalf("PostgreSQL %s, want %s", got, major)
		}
		return db
	}
	oldest, newest := open(versions[0]), open(versions[len(versions)-1])
	if _, err := migrate.Apply(t.Context(), oldest.URL, migrate.Up); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path)
	oldest.Define(t, createRole)
	newest.Define(t, createRole)
	backUpAndRestore(t, oldest, newest)
}
