//go:build citus

package cluster_test

import (
	"slices"
	"testing"
	"time"

	"connect-svc/internal/admin/servers"
	"connect-svc/internal/testing/pgtest"
)

// The console and the metrics tell the sizes of all nodes together, whichever node the server asks.
func TestSizesOnACluster(t *testing.T) {
	db := pgtest.New(t)
	user := db.User(t)
	db.Exec(t, "insert into daily_steps select $1, '1990-01-01'::date + n, n from generate_series(1, 12000) n", user.ID)
	db.Exec(t, "analyze daily_steps")
	all, largest := int64(0), int64(0)
	for _, url := range db.URLs {
		var bytes int64
		if err := session(t, url).QueryRow(t.Context(), "select pg_database_size(current_database())").Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		all, largest = all+bytes, max(largest, bytes)
	}
	for _, url := range db.URLs {
		found, err := servers.New((&pgtest.DB{URL: url, Clock: db.Clock}).Open(t), "host", "", "", time.Now()).Database(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found.Bytes < all-all/10 || found.Bytes > all+all/10 || found.Bytes <= largest {
			t.Errorf("%d bytes of the database, the nodes have %d", found.Bytes, all)
		}
		at := slices.IndexFunc(found.Tables, func(table servers.Table) bool { return table.Name == "daily_steps" })
		if at < 0 {
			t.Fatalf("the largest tables are %+v", found.Tables)
		}
		if steps := found.Tables[at]; steps.Rows != 12000 || steps.Bytes < 500_000 || steps.Indexes < 200_000 || steps.Bytes <= steps.Indexes {
			t.Errorf("%+v of 12000 rows", steps)
		}
	}
}
