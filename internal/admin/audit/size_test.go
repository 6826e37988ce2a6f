package audit_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	"connect-svc/internal/testing/pgtest"
)

// docs/scaling.md says how many bytes an entry takes, with its indexes. Users come in any order, as they do in life, and each connects with one
// of a hundred partners, whose connection ends at last.
func TestSizeOfEntries(t *testing.T) {
	pgtest.NotOnCluster(t, "a shard's size is not the table's")
	t.Parallel()
	db := pgtest.New(t)
	const entries = 40_000
	db.Exec(t, `insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail, at)
		select u, actor, action, u, c, version, detail::jsonb, connect_now() + n * interval '1 second'
		from (select n, md5((n * 7919 % $1 / 4)::text)::uuid as u, md5('c' || n * 7919 % 100)::uuid as c, n / ($1 / 4) as kind
			from generate_series(0, $1 - 1) as n) as life
		join (values (0, 'operator', 'user.created', null, '{}'), (1, 'user', 'consent.allowed', null, '{"scopes": 7}'),
			(2, 'client', 'connection.authorized', 1, '{"scopes": 7}'), (3, 'user', 'connection.disconnected', 2, '{}')
		) as entry (kind, actor, action, version, detail) using (kind)`, entries)
	db.Exec(t, "vacuum audit_log")
	measured := pgtest.Value[float64](t, db, "select pg_total_relation_size('audit_log')::float8") / entries
	text, err := os.ReadFile("../../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`An entry of the audit log takes\s+(\d+) bytes`).FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/scaling.md does not say how many bytes an entry takes")
	}
	if said, _ := strconv.ParseFloat(string(found[1]), 64); math.Abs(measured-said) > said/20 {
		t.Errorf("an entry takes %.0f bytes, docs/scaling.md says %.0f", measured, said)
	}
}
