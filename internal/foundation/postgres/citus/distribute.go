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

	"connect-svc/internal/foundation/postgres"
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
	config.RuntimeParams["citus.propagate_set_commands"] = "local"  // a step has its lock_timeout on each node
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
		d.copyFunctions, d.dropForeignKeys, func(ctx context.Context) error { return d.place(ctx, shards) }, d.truncate, d.addForeignKeys,
		func(ctx context.Context) error { return checkNodes(ctx, d.conn) },
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

func (d distributor) stepIf(ctx context.Context, condition, name, statement string) error {
	holds, err := d.holds(ctx, condition)
	if err != nil || !holds {
		return err
	}
	return d.step(ctx, name, statement)
}

func (d distributor) holds(ctx context.Context, condition string) (holds bool, err error) {
	err = d.conn.QueryRow(ctx, "select "+condition).Scan(&holds)
	return holds, postgres.Wrap("distribute", err)
}

// copyFunctions copies to each node the functions that Citus does not know. It knows those that were created after the extension, and
// copies by itself only those that a table needs.
func (d distributor) copyFunctions(ctx context.Context) error {
	functions, err := texts(ctx, d.conn, `select p.oid::regprocedure::text from pg_proc p
		where p.pronamespace = current_schema()::regnamespace
			and not exists (select from pg_dist_object where classid = 'pg_proc'::regclass and objid = p.oid)
			and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e')
		order by 1`)
	if err != nil {
		return err
	}
	for _, function := range functions {
		if err := d.step(ctx, function+": copy to each node", "select create_distributed_function($1)", function); err != nil {
			return err
		}
	}
	return nil
}

// exists returns a condition: the foreign key exists, with a property.
func exists(key migrations.ForeignKey, property string) string {
	return fmt.Sprintf("exists (select from pg_constraint where conrelid = '%s'::regclass and conname = '%s' and %s)", key.Table, key.Name(), property)
}

// dropForeignKeys drops the foreign keys of tables that are not where they go.
func (d distributor) dropForeignKeys(ctx context.Context) error {
	rest, err := unplaced(ctx, d.conn)
	if err != nil {
		return err
	}
	for _, key := range migrations.ForeignKeys {
		if !slices.Contains(rest, key.Table) {
			continue
		}
		err := d.stepIf(ctx, exists(key, "true"), key.Name()+": drop", fmt.Sprintf("alter table %s drop constraint %s", key.Table, key.Name()))
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
		var same []string
		for column := range strings.SplitSeq(key.Columns, ", ") {
			same = append(same, fmt.Sprintf("other.%s = %s.%[1]s", column, key.Table))
		}
		for _, part := range []struct{ condition, name, statement string }{
			{"not " + exists(key, "true"), "add", fmt.Sprintf("alter table %s add constraint %s foreign key (%s) references %s %s not valid",
				key.Table, key.Name(), key.Columns, key.RefersTo, key.Cascade)},
			{exists(key, fmt.Sprintf("not convalidated and %t", key.Cascade != "")), "delete rows whose owner was deleted meanwhile", fmt.Sprintf(
				"delete from %s where not exists (select from %s other where %s)", key.Table, key.RefersTo, strings.Join(same, " and "))},
			{exists(key, "not convalidated"), "check", fmt.Sprintf("alter table %s validate constraint %s", key.Table, key.Name())},
		} {
			if err := d.stepIf(ctx, part.condition, key.Name()+": "+part.name, part.statement); err != nil {
				return err
			}
		}
	}
	return nil
}

// truncate frees the disk that the tables used on the coordinator. With foreign keys, Citus would lock all tables that refer to one.
func (d distributor) truncate(ctx context.Context) error {
	for _, table := range migrations.Tables() {
		if wanted(table) == local {
			continue
		}
		if err := d.stepIf(ctx, fmt.Sprintf("pg_relation_size('%s'::regclass) > 0", table), table+": free the coordinator's disk",
			fmt.Sprintf("select truncate_local_data_after_distributing_table('%s')", table)); err != nil {
			return err
		}
	}
	return nil
}
