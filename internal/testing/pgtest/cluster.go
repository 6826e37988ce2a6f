package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
)

// clusterShards is how many shards each table of a test has: enough for every node to have some.
const clusterShards = 4

// nodes are the servers that databases are made on: one PostgreSQL, or a Citus cluster, the coordinator first.
type nodes []node

type node struct {
	url   string         // of the maintenance database
	admin *postgres.Pool // on it
}

// ClusterURLs are the addresses of the cluster that CONNECT_TEST_CITUS_URLS names, the coordinator's first; none where the
// tests run on one PostgreSQL.
func ClusterURLs() []string { return strings.Fields(os.Getenv("CONNECT_TEST_CITUS_URLS")) }

// OnCluster says whether the tests run on a cluster.
func OnCluster() bool { return len(ClusterURLs()) > 0 }

// NotOnCluster skips a test on a cluster, and says why it is one of a single PostgreSQL.
func NotOnCluster(t testing.TB, why string) {
	t.Helper()
	if OnCluster() {
		t.Skip("not on a cluster: " + why) //nolint:forbidigo // nothing is missing: it is tested where it can be
	}
}

func openNodes(ctx context.Context, urls []string) (nodes, error) {
	var opened nodes
	for _, url := range urls {
		admin, err := postgres.Open(ctx, url, postgres.WithMaxConns(4), postgres.WithoutStatementTimeout())
		if err != nil {
			opened.close()
			return nil, err
		}
		opened = append(opened, node{url, admin})
	}
	return opened, nil
}

func (n nodes) close() {
	for _, each := range n {
		each.admin.Close()
	}
}

// expect fails if the server has another major version than the one that the tests are to run on. Empty is any.
func (n nodes) expect(ctx context.Context, major string) error {
	var version string
	if err := n[0].admin.QueryRow(ctx, "show server_version").Scan(&version); err != nil || major == "" {
		return err
	}
	if got, _, _ := strings.Cut(version, "."); got != major {
		return fmt.Errorf("CONNECT_TEST_POSTGRES is %s, and the server is PostgreSQL %s", major, version)
	}
	return nil
}

// exec runs statements on every node, the coordinator last: what is there is there on all.
func (n nodes) exec(ctx context.Context, statements ...string) error {
	for i := len(n) - 1; i >= 0; i-- {
		for _, statement := range statements {
			if _, err := n[i].admin.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	return nil
}

// connect are pools of one connection on a database of every node.
func (n nodes) connect(ctx context.Context, database string) (nodes, error) {
	urls := make([]string, len(n))
	for i, each := range n {
		urls[i] = urlOf(each.url, database)
	}
	return openNodes(ctx, urls)
}

// join makes the databases of one name a cluster, as docs/scaling.md says. No table is distributed.
func (n nodes) join(ctx context.Context, database string) error {
	there, err := n.connect(ctx, database)
	if err != nil {
		return err
	}
	defer there.close()
	if err := there.exec(ctx, "create extension citus"); err != nil {
		return err
	}
	for i, each := range n {
		parsed, err := url.Parse(each.url)
		if err != nil {
			return err
		}
		host, port := parsed.Hostname(), parsed.Port()
		if net.ParseIP(host) == nil || !net.ParseIP(host).IsLoopback() {
			return errors.New("CONNECT_TEST_CITUS_URLS: the tests talk to loopback addresses only")
		}
		statement := "select citus_add_node($1, $2::text::int)"
		if i == 0 {
			statement = "select citus_set_coordinator_host($1, $2::text::int)"
		}
		if _, err := there[0].admin.Exec(ctx, statement, host, port); err != nil {
			return err
		}
	}
	return nil
}

// distribute spreads a migrated database, and puts the clock of the tests into a table of each node: what a session of one
// node is told the others do not hear.
func (n nodes) distribute(ctx context.Context, database string) error {
	if err := citus.Distribute(ctx, urlOf(n[0].url, database), clusterShards, func(string, time.Duration) {}); err != nil {
		return err
	}
	there, err := n.connect(ctx, database)
	if err != nil {
		return err
	}
	defer there.close()
	if err := there.exec(ctx, "create table test_clock as select interval '0' ahead", "grant select on test_clock to public"); err != nil {
		return err
	}
	_, err = there[0].admin.Exec(ctx, `create or replace function connect_now() returns timestamptz
		language plpgsql stable parallel safe as $$ begin return statement_timestamp() + (select ahead from test_clock); end $$`)
	return err
}

// seal ends what works on a database that is copied from now on.
func (n nodes) seal(ctx context.Context, database string) error {
	return n.exec(ctx,
		"alter database "+database+" allow_connections false",
		"select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '"+database+"'")
}

// drop removes a database. A cluster's own workers leave it slowly.
func (n nodes) drop(ctx context.Context, database string) error {
	statement := "drop database if exists " + database + " with (force)"
	for end := time.Now().Add(3 * time.Minute); ; { // PostgreSQL itself waits for 5 s each time
		if err := n.exec(ctx, statement); err == nil || time.Now().After(end) || !OnCluster() {
			return err
		}
	}
}

// follow makes the nodes tell the time of a clock from now on.
func (n nodes) follow(t testing.TB, database string, clock *clock.Clock) {
	t.Helper()
	there, err := n.connect(context.Background(), database)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(there.close)
	clock.Changed = func(offset time.Duration) {
		for _, each := range there {
			if _, err := each.admin.Exec(context.Background(), "update test_clock set ahead = $1", offset); err != nil {
				t.Errorf("pgtest: the clock: %v", err)
			}
		}
	}
}

// NewCluster gives t a database of a cluster's coordinator: an empty one, or one that was migrated before it had Citus, with no table on
// another node yet.
func NewCluster(t testing.TB, migrated bool) *DB {
	t.Helper()
	db := create(t, "template0")
	var err error
	if migrated {
		_, err = migrate.Apply(context.Background(), db.URLs[0], migrate.Up)
	}
	if err := errors.Join(err, server.nodes.join(context.Background(), db.name)); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return db
}
