// Package citus spreads the tables of a migrated database over the nodes of a Citus cluster. Package migrations tells where each
// table goes.
//
// # Invariants
//
//   - The service keeps working meanwhile. Every refresh and read succeeds; for a moment batches can fail (cluster.TestDistributeUnderLoad).
//   - A step that holds up others lets them pass for several times as long (cluster.TestDistributeMakesWayOnACluster).
//   - A distribution that was interrupted between or within steps continues when it is started again (cluster.TestDistributeUnderLoad,
//     cluster.TestDistributeBrokenOffOnACluster).
//   - The operator's own things that are in the way are named before the first step (cluster.TestDistributeBesideOwnTablesOnACluster).
//   - The error for a database that cannot be distributed is one line, and the database is unchanged (TestDistributeRefuses).
//   - A distribution ends well only if every node has all that the service needs (cluster.TestNodeThatLacksSomethingOnACluster).
package citus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/postgres"
	"connect-svc/migrations"
)

// Distribute spreads the tables of a migrated database over the nodes of its Citus cluster. url leads to the coordinator, and shards
// is 1 to 1024. The service keeps working meanwhile. Distribute calls done after each step that changed something, and with a text that
// names the holder of a lock for which a step makes way. If ctx ends, the present step is ended, or has finished; the error says
// which. The next call continues. The error is one line.
func Distribute(ctx context.Context, url string, shards int, done func(step string, took time.Duration)) error {
	config, err := postgres.BulkConfig(url)
	if err != nil {
		return err
	}
	config.RuntimeParams["client_connection_check_interval"] = "1s" // a step ends soon after this program
	var conns [2]*pgx.Conn
	for i := range conns {
		if conns[i], err = pgx.ConnectConfig(ctx, config); err != nil {
			return postgres.ConnectError(config, err)
		}
		defer func() { _ = conns[i].Close(context.WithoutCancel(ctx)) }()
	}
	d := distributor{conns[0], conns[1], done}
	if err := d.check(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		d.copyFunctions, d.dropForeignKeys, func(ctx context.Context) error { return d.place(ctx, shards) }, d.truncate, d.addForeignKeys, d.checkNodes,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type distributor struct {
	conn  *pgx.Conn // takes the steps
	watch *pgx.Conn // sees who is in their way
	done  func(step string, took time.Duration)
}

func (d distributor) holds(ctx context.Context, condition string, args ...any) (holds bool, err error) {
	err = d.conn.QueryRow(ctx, "select "+condition, args...).Scan(&holds)
	return holds, postgres.Wrap("distribute", err)
}

// each takes a step for each table that meets a condition.
func (d distributor) each(ctx context.Context, tables []string, condition, name, statement string) error {
	for _, table := range tables {
		holds, err := d.holds(ctx, condition, table)
		if err == nil && holds {
			err = d.step(ctx, table+": "+name, statement, table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFunctions copies to each node the functions that Citus does not know. It knows those that were created after the extension, and
// copies by itself only those that a table needs.
func (d distributor) copyFunctions(ctx context.Context) error {
	rows, err := d.conn.Query(ctx, `select p.oid::regprocedure::text from pg_proc p
		where p.pronamespace = current_schema()::regnamespace
			and not exists (select from pg_dist_object where classid = 'pg_proc'::regclass and objid = p.oid)
			and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e')
		order by 1`)
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	functions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	return d.each(ctx, functions, "$1::text <> ''", "copy to each node", "select create_distributed_function($1::regprocedure)")
}

func (d distributor) hasForeignKey(ctx context.Context, key migrations.ForeignKey) (bool, error) {
	return d.holds(ctx, "exists (select from pg_constraint where conrelid = $1::text::regclass and conname = $2)",
		key.Table, key.Name())
}

// dropForeignKeys drops the foreign keys of tables that are not where they go.
func (d distributor) dropForeignKeys(ctx context.Context) error {
	for _, key := range migrations.ForeignKeys {
		placed, err := d.isPlaced(ctx, key.Table)
		if err != nil {
			return err
		}
		there, err := d.hasForeignKey(ctx, key)
		if err == nil && there && !placed {
			err = d.step(ctx, key.Name()+": drop", fmt.Sprintf("alter table %s drop constraint %s", key.Table, key.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addForeignKeys adds the foreign keys without checking the rows, which takes a lock for a moment only. Then it has the rows checked,
// while the tables are read and written. A row may have lost what it refers to meanwhile: such orphans are deleted.
func (d distributor) addForeignKeys(ctx context.Context) error {
	for _, key := range migrations.ForeignKeys {
		name := key.Name()
		there, err := d.hasForeignKey(ctx, key)
		if err != nil {
			return err
		}
		if !there {
			if err := d.step(ctx, name+": add", fmt.Sprintf("alter table %s add constraint %s foreign key (%s) references %s %s not valid",
				key.Table, name, key.Columns, key.RefersTo, key.Cascade)); err != nil {
				return err
			}
		}
		valid, err := d.holds(ctx, "convalidated from pg_constraint where conrelid = $1::text::regclass and conname = $2", key.Table, name)
		if err != nil {
			return err
		}
		if valid {
			continue
		}
		if key.Cascade != "" {
			same := make([]string, 0, 2)
			for column := range strings.SplitSeq(key.Columns, ", ") {
				same = append(same, "other."+column+" = "+key.Table+"."+column)
			}
			if err := d.step(ctx, name+": delete rows whose owner was deleted meanwhile", fmt.Sprintf(
				"delete from %s where not exists (select from %s other where %s)", key.Table, key.RefersTo, strings.Join(same, " and "))); err != nil {
				return err
			}
		}
		if err := d.step(ctx, name+": check", fmt.Sprintf("alter table %s validate constraint %s", key.Table, name)); err != nil {
			return err
		}
	}
	return nil
}

// truncate frees the disk that the tables used on the coordinator. With foreign keys, Citus would lock all tables that refer to one.
func (d distributor) truncate(ctx context.Context) error {
	tables := slices.DeleteFunc(tables(), func(table string) bool { return slices.Contains(migrations.CoordinatorTables, table) })
	return d.each(ctx, tables, "pg_relation_size($1::text::regclass) > 0", "free the coordinator's disk",
		"select truncate_local_data_after_distributing_table($1)")
}
