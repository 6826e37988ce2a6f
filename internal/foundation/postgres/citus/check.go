package citus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/migrations"
)

// querier is a connection or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Check returns an error that names everything on the nodes of a cluster that does not suit the service, or its distribution if the
// tables are not distributed yet. is is false for a database without Citus.
func Check(ctx context.Context, db querier) (ok bool, err error) {
	if ok, err := isCluster(ctx, db); err != nil || !ok {
		return false, err
	}
	if err := checkSettings(ctx, db); err != nil {
		return true, err
	}
	rest, err := unplaced(ctx, db)
	switch {
	case err != nil:
		return true, err
	case len(rest) > 0:
		return true, checkObstacles(ctx, db, rest)
	}
	return true, checkNodes(ctx, db)
}

// IsHalfDone reports whether some tables are distributed and others are not yet.
func IsHalfDone(ctx context.Context, db querier) (half bool, err error) {
	if ok, err := isCluster(ctx, db); err != nil || !ok {
		return false, err
	}
	rest, err := unplaced(ctx, db)
	return len(rest) > 0 && len(rest) < len(migrations.Tables()), err
}

func isCluster(ctx context.Context, db querier) (ok bool, err error) {
	err = db.QueryRow(ctx, "select "+postgres.IsSharded).Scan(&ok)
	return ok, postgres.Wrap("distribute", err)
}

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
		{fmt.Sprintf("coalesce((select max(version_id) filter (where is_applied) from goose_db_version), 0) = %d", needed),
			"the schema is not this program's: run connect-svc migrate up first"},
	} {
		holds, err := d.holds(ctx, wanted.condition)
		if err != nil && !postgres.Is(err, postgres.UndefinedTable) {
			return err
		}
		if !holds {
			return errors.New("distribute: " + wanted.otherwise)
		}
	}
	// Another distribution may be at work. PostgreSQL takes a moment to notice that one which was killed is gone.
	_, err = d.conn.Exec(ctx, "set lock_timeout = '20s'; select pg_advisory_lock(hashtextextended('connect-svc.distribute', 0))")
	if postgres.Is(err, postgres.LockNotAvailable) {
		return errors.New("distribute: the database is being distributed already")
	}
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	if err := checkSettings(ctx, d.conn); err != nil {
		return err
	}
	rest, err := unplaced(ctx, d.conn)
	if err != nil {
		return err
	}
	if err := checkObstacles(ctx, d.conn, rest); err != nil {
		return err
	}
	// A call that was broken off can leave transactions that nodes have prepared. Citus ends them within a minute, and steps can fail until then.
	may, err := d.holds(ctx, "has_function_privilege('recover_prepared_transactions()', 'execute')")
	if err == nil && may {
		_, err = d.conn.Exec(ctx, "select recover_prepared_transactions()")
	}
	return postgres.Wrap("distribute", err)
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

// checkObstacles returns an error that names the operator's own things that keep tables from being placed.
func checkObstacles(ctx context.Context, db querier, rest []string) error {
	return refuse(ctx, db, "remove these first, as a table that is spread over nodes can not have them: ", "", obstacles, rest,
		postgres.Map(migrations.ForeignKeys, migrations.ForeignKey.Name))
}

// refuse returns an error that names the faults that a query finds.
func refuse(ctx context.Context, db querier, before, after, query string, args ...any) error {
	faults, err := texts(ctx, db, query, args...)
	if err == nil && len(faults) > 0 {
		err = errors.New("distribute: " + before + strings.Join(faults, "; ") + after)
	}
	return err
}

func texts(ctx context.Context, db querier, query string, args ...any) ([]string, error) {
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("distribute: %w", err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return values, postgres.Wrap("distribute", err)
}
