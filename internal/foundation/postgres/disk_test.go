package postgres_test

import (
	"context"
	"net/url"
	"testing"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/wait"
)

// The disk is known to a role that PostgreSQL lets see its directory, and to no other.
func TestDisk(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(t.Context(), embedded.Config{Ephemeral: true, Limits: wait.Patient})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	disk := func(at string) (free, size uint64) {
		t.Helper()
		pool, err := postgres.Open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if free, size, err = postgres.Disk(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		return free, size
	}
	super, err := postgres.Open(context.Background(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close()
	exec := func(statement string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("create role looker login password 'looks'")
	at, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("looker", "looks")
	if free, size := disk(at.String()); free != 0 || size != 0 {
		t.Errorf("without privileges: %d of %d", free, size)
	}
	exec("grant pg_read_all_settings to looker")
	if _, size := disk(at.String()); size != 0 {
		t.Errorf("with half of the privileges: %d", size)
	}
	exec("grant execute on function pg_stat_file(text) to looker")
	if free, size := disk(at.String()); free == 0 || free > size {
		t.Errorf("with both privileges: %d of %d", free, size)
	}
}
