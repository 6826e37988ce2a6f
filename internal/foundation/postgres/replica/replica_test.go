package replica_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"testing"
	"time"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// openReplicas takes replicas at hosts, with the user and database of db.
func openReplicas(t *testing.T, db *pgtest.DB, hosts string) *replica.Set {
	t.Helper()
	at, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.Host = ""
	readURL := "postgres://" + at.User.String() + "@" + hosts + at.Path + "?" + at.RawQuery
	replicas, err := replica.Open(t.Context(), readURL, db.Pool, work.DefaultLimits, db.Clock.Now, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(replicas.Close)
	return replicas
}

// A server that is not a replica, a missing one, and one that does not answer are left out, each by itself, and reads go to the
// primary. e2e/cluster shows how a real replica is used, and left out when it is late or dies.
func TestReplicasThatAreNone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	primary, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	replicas := openReplicas(t, db, primary.Host+",127.0.0.1:1,"+silent.Addr().String())
	replicas.Check(t.Context())
	if got, want := replicas.Counts(), (replica.Counts{LeftOut: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	states := replicas.States()
	if len(states) != 3 || states[1] != (replica.State{Name: "127.0.0.1:1"}) || states[0].Used || states[2].Used {
		t.Errorf("the states are %+v", states)
	}
	for name, from := range map[string]*replica.Set{"left out": replicas, "none": nil} {
		answer, err := replica.Read(t.Context(), db.Pool, from, func(ctx context.Context, pool *postgres.Pool) (answer bool, err error) {
			return answer, pool.QueryRow(ctx, "select not pg_is_in_recovery()").Scan(&answer)
		})
		if err != nil || !answer {
			t.Errorf("%s: the primary answered %t, %v", name, answer, err)
		}
	}
}

// An error of the primary is the caller's.
func TestReadFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("failed")
	_, err := replica.Read(t.Context(), new(postgres.Pool), nil, func(context.Context, *postgres.Pool) (bool, error) { return false, failure })
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

func TestOpenReplicasURL(t *testing.T) {
	t.Parallel()
	_, err := replica.Open(t.Context(), "mysql://u:n0t-for-logs@h/n", nil, work.DefaultLimits, time.Now, slog.Default())
	if err == nil || err.Error() != "database: the address is not the URL of a PostgreSQL database: expected postgres://user:password@host:port/name" {
		t.Errorf("got %v", err)
	}
}
