package citus_test

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// placed is a table, and where it goes on a cluster.
type placed struct {
	migrations.ShardedTable
	group        string // of the tables whose rows are in one place
	leaderColumn string
}

func tables() (all []placed) {
	columns := map[string]string{}
	for _, name := range migrations.ReferenceTables {
		all = append(all, placed{migrations.ShardedTable{Name: name}, "reference", ""})
	}
	for _, name := range migrations.CoordinatorTables {
		all = append(all, placed{migrations.ShardedTable{Name: name}, name, ""})
	}
	for _, table := range migrations.ShardedTables {
		columns[table.Name] = table.Column
		all = append(all, placed{table, cmp.Or(table.Leader, table.Name), columns[table.Leader]})
	}
	return all
}

// texts reads one column of text.
func texts(t *testing.T, db *pgtest.DB, query string) []string {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The schema meets a cluster's demands on one PostgreSQL, too: it is the same schema.
func TestSchemaCanBeDistributed(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCluster(t, "it is one already")
	db := pgtest.New(t)
	tables := tables()

	var known []string
	for _, table := range tables {
		known = append(known, table.Name)
	}
	slices.Sort(known)
	all := texts(t, db, "select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by relname collate \"C\"")
	if diff := gocmp.Diff(all, known); diff != "" {
		t.Errorf("tables (-there +distributed):\n%s", diff)
	}

	group := map[string]string{}
	for _, table := range tables {
		group[table.Name] = table.group
		if table.Column == "" {
			continue
		}
		for _, key := range texts(t, db, `select indisprimary || ' ' || string_agg(attname, ',' order by position)
			from pg_index, unnest(indkey) with ordinality as k (column_number, position)
			join pg_attribute on attnum = column_number
			where indrelid = '`+table.Name+`'::regclass and attrelid = indrelid and indisunique
			group by indexrelid, indisprimary`) {
			primary, columns, _ := strings.Cut(key, " ")
			if list := strings.Split(columns, ","); !slices.Contains(list, table.Column) || primary == "true" && list[0] != table.Column {
				t.Errorf("%s is sharded by %s, and has the key (%s)", table.Name, table.Column, columns)
			}
		}
		if table.Leader != "" {
			types := texts(t, db, `select format_type(atttypid, atttypmod) from pg_attribute
				where (attrelid, attname) in (('`+table.Name+`'::regclass, '`+table.Column+`'), ('`+table.Leader+`'::regclass, '`+table.leaderColumn+`'))`)
			if len(types) != 2 || types[0] != types[1] {
				t.Errorf("%s.%s and the column of its leader are of types %q", table.Name, table.Column, types)
			}
		}
	}

	var keys []string
	for _, key := range migrations.ForeignKeys {
		keys = append(keys, strings.TrimSpace(fmt.Sprintf("%s %s FOREIGN KEY (%s) REFERENCES %s(%s) %s",
			key.Table, key.Name(), key.Columns, key.RefersTo, key.Columns, strings.ToUpper(key.Cascade))))
		switch from, to := group[key.Table], group[key.RefersTo]; {
		case to == "reference":
		case from != to:
			t.Errorf("%s refers to %s, whose rows are elsewhere", key.Table, key.RefersTo)
		case !strings.HasPrefix(key.Columns, "user_id"):
			t.Errorf("%s refers to %s by (%s), without the user", key.Table, key.RefersTo, key.Columns)
		}
	}
	slices.Sort(keys)
	there := texts(t, db, `select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
		from pg_constraint where contype = 'f' and connamespace = 'public'::regnamespace order by 1`)
	slices.Sort(there)
	if diff := gocmp.Diff(there, keys); diff != "" {
		t.Errorf("foreign keys (-there +distributed):\n%s", diff)
	}

	if triggers := texts(t, db, "select tgname::text from pg_trigger where not tgisinternal"); len(triggers) != 0 {
		t.Errorf("triggers, which a shard does not have: %q", triggers)
	}
	if inlined := texts(t, db, `select proname::text from pg_proc join pg_language on prolang = pg_language.oid
		where proname in ('connect_now', 'believed_time') and lanname <> 'plpgsql'`); len(inlined) != 0 {
		t.Errorf("the clock may be inlined: %q", inlined)
	}
}

// Two documents name each table, and no other: what it holds, and where it goes on a cluster.
func TestTablesAreDocumented(t *testing.T) {
	t.Parallel()
	var all []string
	for _, table := range tables() {
		if table.Name != "goose_db_version" { // goose's own
			all = append(all, table.Name)
		}
	}
	slices.Sort(all)
	for name, part := range map[string]struct{ heading, column string }{
		"ARCHITECTURE.md": {"\n## Data\n", `(?m)^\| ([^|]+) \|`}, "docs/scaling.md": {"\n### Where each table goes\n", "(?m)^.*$"},
	} {
		document, err := os.ReadFile("../../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(document), part.heading)
		section, _, _ = strings.Cut(section, "\n#")
		var named []string
		for _, row := range regexp.MustCompile(part.column).FindAllString(section, -1) {
			for _, table := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row, -1) {
				named = append(named, table[1])
			}
		}
		slices.Sort(named)
		named = slices.DeleteFunc(slices.Compact(named), func(table string) bool { return table == "goose_db_version" })
		if diff := gocmp.Diff(all, named); diff != "" {
			t.Errorf("%s (-there +named):\n%s", name, diff)
		}
	}
}

// A database without a cluster is refused in one line, and left as it is.
func TestDistributeRefuses(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCluster(t, "it is one")
	db := pgtest.New(t)
	err := citus.Distribute(t.Context(), db.URL, 32, nil)
	if err == nil || !strings.Contains(err.Error(), "has no Citus") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error: %v", err)
	}
}
