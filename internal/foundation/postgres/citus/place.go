package citus

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/migrations"
)

// The kinds of tables that Citus knows. A step that was broken off can leave a table local that goes elsewhere.
const (
	unknown     = ""
	local       = "local" // on the coordinator
	onEachNode  = "reference"
	distributed = "distributed"
)

func kinds(ctx context.Context, db querier) (kinds map[string]string, err error) {
	err = db.QueryRow(ctx, `select coalesce(json_object_agg(logicalrelid::regclass, case
			when partmethod = 'h' then 'distributed' when repmodel = 't' then 'reference' when colocationid = 0 then 'local' else 'other' end), '{}')
		from pg_dist_partition`).Scan(&kinds)
	return kinds, postgres.Wrap("distribute", err)
}

func wanted(table string) string {
	switch {
	case slices.Contains(migrations.ReferenceTables, table):
		return onEachNode
	case slices.Contains(migrations.CoordinatorTables, table):
		return local
	}
	return distributed
}

// unplaced returns the tables that are not where they go.
func unplaced(ctx context.Context, db querier) ([]string, error) {
	kinds, err := kinds(ctx, db)
	return slices.DeleteFunc(migrations.Tables(), func(table string) bool { return kinds[table] == wanted(table) }), err
}

func (d distributor) place(ctx context.Context, shards int) error {
	kinds, err := kinds(ctx, d.conn)
	if err != nil {
		return err
	}
	for _, table := range migrations.Tables() {
		switch want := wanted(table); {
		case kinds[table] == want:
		case want == onEachNode:
			if kinds[table] == distributed { // until 1.3.0: as release 1.0.0 placed user_addresses
				err = d.step(ctx, table+": gather", "select undistribute_table($1)", table)
			}
			if err == nil {
				err = d.step(ctx, table+": copy to each node", "select create_reference_table($1)", table)
			}
		case want == local:
			err = d.step(ctx, table+": tell each node where it is", "select citus_add_local_table_to_metadata($1)", table)
		default:
			i := slices.IndexFunc(migrations.ShardedTables, func(sharded migrations.ShardedTable) bool { return sharded.Name == table })
			err = d.shard(ctx, migrations.ShardedTables[i], kinds[table], shards)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// concurrently is the function that copies a table while it is written to.
const concurrently = "create_distributed_table_concurrently"

// fewRows is the maximum number of rows of a table that is locked while it is copied, for less than a second. A larger table is
// copied while it is written to, which takes at least some seconds.
const fewRows = 10_000

// shard spreads a table that is of another kind yet.
func (d distributor) shard(ctx context.Context, table migrations.ShardedTable, kind string, shards int) error {
	large, err := d.holds(ctx, fmt.Sprintf("exists (select from %s offset %d)", table.Name, fewRows))
	if err != nil {
		return err
	}
	name, function := table.Name+": shard by "+table.Column, "create_distributed_table"
	if large || kind == local {
		// A table that is written to while it is copied is a local one first. Citus would make it one on a connection of its own, whose wait
		// for the lock has no bound.
		if kind == unknown {
			if err := d.step(ctx, table.Name+": prepare", "select citus_add_local_table_to_metadata($1)", table.Name); err != nil {
				return err
			}
		}
		name, function = name+", while it is written to", concurrently
	}
	options, last := "colocate_with => $3", any(table.Leader)
	if table.Leader == "" {
		options, last = "colocate_with => 'none', shard_count => $3", shards
	}
	return d.step(ctx, name, fmt.Sprintf("select %s($1, $2, %s)", function, options), table.Name, table.Column, last)
}

// faultsOfNodes asks each node a question whose answer is a JSON array of its faults.
const faultsOfNodes = `select concat('node ', nodename, ':', nodeport, ' ', fault)
	from run_command_on_all_nodes($1) join pg_dist_node using (nodeid), json_array_elements_text(
		case when success then result::json else json_build_array('does not answer: ' || regexp_replace(result, '\s+', ' ', 'g')) end) fault
	order by nodeid, fault`

// unfit returns the faults of a node that would make a step fail. While a large table is copied, the coordinator needs a replication slot
// and a sender for each node and one of each besides. A node may have no table of the service's before it is told of it.
const unfit = `select coalesce(json_agg(fault), '[]') from (values
	(current_setting('wal_level') <> 'logical', 'has a wal_level that is not logical'),
	(current_setting('max_prepared_transactions')::int < current_setting('max_connections')::int, 'has max_prepared_transactions below max_connections'),
	(coalesce(current_setting('output_plugin_libraries', true), 'pgoutput, citus, *') !~ 'citus|[*]', 'has output_plugin_libraries without citus'),
	(current_setting('max_replication_slots')::int - (select count(*) from pg_replication_slots) < %[1]d, 'has fewer than %[1]d free max_replication_slots'),
	(current_setting('max_wal_senders')::int - (select count(*) from pg_stat_replication) < %[1]d, 'has fewer than %[1]d free max_wal_senders'),
	(current_setting('max_logical_replication_workers')::int < %[1]d, 'has max_logical_replication_workers below %[1]d'),
	(current_setting('max_worker_processes')::int < %[1]d, 'has max_worker_processes below %[1]d'),
	((select extversion from pg_extension where extname = 'citus') <> '%[2]s', 'has a Citus that is not version %[2]s'),
	((select available_disk_size from citus_local_disk_space_stats()) < %[4]d, 'has less than %[4]d bytes of free disk, its share of the tables'),
	((select groupid from pg_dist_local_group) <> 0 and exists (select from pg_class left join pg_dist_partition on logicalrelid = oid
		where relnamespace = current_schema()::regnamespace and relname in ('%[3]s') and logicalrelid is null),
		'has tables of the service already: its database must be empty')
) as faults (wrong, fault) where wrong`

// checkSettings returns an error that names the nodes that would make a step fail.
func checkSettings(ctx context.Context, db querier) error {
	var nodes, share int64
	var version string
	if err := db.QueryRow(ctx, `select count(*), (select extversion from pg_extension where extname = 'citus'), coalesce((
			select sum(pg_total_relation_size(oid)) from pg_class where oid = any ($1::text[]::regclass[])) / nullif(count(*) filter (where shouldhaveshards), 0), 0)::bigint
		from pg_dist_node where noderole = 'primary'`, migrations.Tables()).Scan(&nodes, &version, &share); err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	return refuse(ctx, db, "", "", faultsOfNodes, fmt.Sprintf(unfit, nodes+1, version, strings.Join(migrations.Tables(), "', '"), share))
}

// needed describes all that a node needs to have for the service, by name: functions, types, tables with their indexes, and privileges.
const needed = `select json_object_agg(name, definition) from (
	select 'function ' || oid::regprocedure as name, pg_get_functiondef(oid) as definition
	from pg_proc where pronamespace = current_schema()::regnamespace and prokind = 'f'
		and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = pg_proc.oid and deptype = 'e')
	union all
	select 'type ' || oid::regtype, format_type(typbasetype, typtypmod)
	from pg_type where typnamespace = current_schema()::regnamespace and typtype = 'd'
	union all
	select 'table ' || relname, concat_ws(' ', pg_get_userbyid(relowner), partmethod, repmodel, (
		select string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)), ', ' order by attname)
		from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
		where attrelid = pg_class.oid and attnum > 0 and not attisdropped))
	from pg_dist_partition join pg_class on logicalrelid = oid where relnamespace = current_schema()::regnamespace
	union all
	select 'index ' || indexrelid::regclass, pg_get_indexdef(indexrelid)
	from pg_dist_partition join pg_index on logicalrelid = indrelid join pg_class on indrelid = oid
	where relnamespace = current_schema()::regnamespace
	union all
	select concat('privilege to ', lower(privilege_type), ' of ', case grantee when 0 then 'everybody' else pg_get_userbyid(grantee) end,
		' on table ', relname), ''
	from pg_dist_partition join pg_class on logicalrelid = oid, aclexplode(coalesce(relacl, acldefault('r', relowner)))
	where relnamespace = current_schema()::regnamespace
) as all_of_it`

// lacking returns what a node lacks of all that the service needs, or has otherwise. The coordinator has it.
const lacking = `select coalesce(json_agg(case when there.key is null then 'lacks the ' else 'has another ' end || here.key), '[]')
	from json_each_text(%s) here left join json_each_text((` + needed + `)) there using (key) where there.value is distinct from here.value`

// checkNodes asks each node for all that the service needs. The error names what nodes lack, or have otherwise.
func checkNodes(ctx context.Context, db querier) error {
	var here string
	if err := db.QueryRow(ctx, "select quote_literal(result) from run_command_on_coordinator($1)", needed).Scan(&here); err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	return refuse(ctx, db, "servers would not work at every node: ", "; tell a node everything again: select start_metadata_sync_to_node('…', 5432)",
		faultsOfNodes, fmt.Sprintf(lacking, here))
}
