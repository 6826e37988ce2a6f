package citus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/postgres"
	"connect-svc/internal/postgres/migrate"
	"connect-svc/migrations"
)

// check returns an error if the database cannot be distributed. Nothing has changed then.
func (d distributor) check(ctx context.Context) error {
	needed, err := migrate.Newest()
	if err != nil {
		return err
	}
	for _, wanted := range []struct{ condition, otherwise string }{
		{"exists (select from pg_extension where extname = 'citus')",
			"the database has no Citus: create extension citus on each node, and add the nodes"},
		{"exists (select from pg_dist_node where groupid = 0)",
			"the cluster does not know its coordinator: select citus_set_coordinator_host('…')"},
		{"exists (select from pg_dist_node where groupid <> 0 and isactive and shouldhaveshards and noderole = 'primary')",
			"the cluster has no node for shards: select citus_add_node('…', 5432)"},
		{"(select groupid = 0 from pg_dist_local_group)",
			"this is a node of the cluster, and not its coordinator"},
		{fmt.Sprintf("coalesce((select max(version_id) from goose_db_version), 0) = %d", needed),
			"the schema is not this program's: run connect-svc migrate up first"},
	} {
		var holds bool
		if err := d.conn.QueryRow(ctx, "select "+wanted.condition).Scan(&holds); err != nil && !postgres.Is(err, postgres.UndefinedTable) {
			return fmt.Errorf("distribute: %w", err)
		}
		if !holds {
			return errors.New("distribute: " + wanted.otherwise)
		}
	}
	if err := d.lock(ctx); err != nil {
		return err
	}
	if err := d.checkSettings(ctx); err != nil {
		return err
	}
	return d.checkObstacles(ctx)
}

// lock keeps other distributions away. PostgreSQL takes a moment to notice that one which was killed is gone.
func (d distributor) lock(ctx context.Context) error {
	for began := time.Now(); ; {
		locked, err := d.holds(ctx, "pg_try_advisory_lock(hashtextextended('connect-svc.distribute', 0))")
		if err != nil || locked {
			return err
		}
		if time.Since(began) > lockPatience {
			return errors.New("distribute: the database is being distributed already")
		}
		if err := pause(ctx, lockWait); err != nil {
			return err
		}
	}
}

// obstacles are things that are not the service's and keep a table from being placed.
const obstacles = `select 'table ' || conrelid::regclass || ' has the foreign key ' || conname || ' to ' || confrelid::regclass
	from pg_constraint where contype = 'f' and conparentid = 0 and conname <> all ($2)
		and (conrelid = any ($1::text[]::regclass[]) or confrelid = any ($1::text[]::regclass[]))
union all
select 'table ' || tgrelid::regclass || ' has the trigger ' || tgname
	from pg_trigger where not tgisinternal and tgrelid = any ($1::text[]::regclass[])
union all
select 'table ' || inhrelid::regclass || ' inherits from ' || inhparent::regclass
	from pg_inherits where inhparent = any ($1::text[]::regclass[]) or inhrelid = any ($1::text[]::regclass[])
order by 1`

// checkObstacles returns an error that names the operator's own things that keep a table from being placed.
func (d distributor) checkObstacles(ctx context.Context) error {
	var rest, keys []string
	for _, table := range tables() {
		placed, err := d.isPlaced(ctx, table)
		if err != nil {
			return err
		}
		if !placed {
			rest = append(rest, table)
		}
	}
	for _, key := range migrations.ForeignKeys {
		keys = append(keys, key.Name())
	}
	rows, err := d.conn.Query(ctx, obstacles, rest, keys)
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	if len(found) > 0 {
		return errors.New("distribute: remove these first, as a table that is spread over nodes can not have them: " + strings.Join(found, "; "))
	}
	return nil
}
