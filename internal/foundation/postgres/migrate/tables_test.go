package migrate_test

import (
	"testing"

	"connect-svc/internal/testing/pgtest"
)

// An index whose order depends on a locale breaks if the system library that defines the locale changes, on this server or on a replica.
func TestNoIndexDependsOnALocale(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const dependent = `select coalesce(string_agg(distinct i.indexrelid::regclass::text, ' '), '')
		from pg_index i, unnest(i.indcollation) used
		where i.indrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace) and used not in (0, 'pg_catalog."C"'::regcollation)`
	if found := pgtest.Value[string](t, db, dependent); found != "" {
		t.Errorf("these indexes have another collation than C: %s", found)
	}
}

// Logical replication, which upgrades PostgreSQL without downtime, updates and deletes rows of tables with a primary key only.
func TestTablesHavePrimaryKeys(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const without = `select coalesce(string_agg(relname, ' '), '') from pg_class c
		where relnamespace = 'public'::regnamespace and relkind = 'r'
			and not exists (select 1 from pg_index i where i.indrelid = c.oid and i.indisprimary)`
	if found := pgtest.Value[string](t, db, without); found != "" {
		t.Errorf("these tables have no primary key: %s", found)
	}
}
