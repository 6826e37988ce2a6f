package pgtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connect-svc/internal/foundation/postgres"
)

// Rows returns a hash of the rows of each table. It leaves out these tables and columns, such as "usage_hours" or "connections.last_read_at".
func Rows(t testing.TB, pool *postgres.Pool, except ...string) map[string]string {
	t.Helper()
	db := &DB{Pool: pool}
	var parts []string
	for _, table := range Value[[]string](t, db, `select array_agg(tablename::text order by tablename) from pg_tables
			where schemaname = current_schema() and tablename <> 'goose_db_version'`) {
		if slices.Contains(except, table) {
			continue
		}
		row := "to_jsonb(r)"
		for _, name := range except {
			if column, found := strings.CutPrefix(name, table+"."); found {
				row += " - '" + column + "'"
			}
		}
		parts = append(parts, fmt.Sprintf("'%s', (select md5(coalesce(string_agg((%s)::text, ' ' order by r::text), '')) from %s r)", table, row, table))
	}
	hashes := map[string]string{}
	for part := range slices.Chunk(parts, 40) { // a function takes a hundred arguments
		for table, hash := range Value[map[string]string](t, db, "select jsonb_build_object("+strings.Join(part, ", ")+")") {
			hashes[table] = hash
		}
	}
	return hashes
}
