package citus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

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

// checkNodes asks each node for all that the service needs. The error names what nodes lack, or have otherwise.
func (d distributor) checkNodes(ctx context.Context) error {
	var text string
	if err := d.conn.QueryRow(ctx, needed).Scan(&text); err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	here, err := definitions(text)
	if err != nil {
		return err
	}
	wrong, err := d.onNodes(ctx, needed, func(answer string) (lacks []string, err error) {
		there, err := definitions(answer)
		for _, name := range slices.Sorted(maps.Keys(here)) {
			if definition, known := there[name]; !known {
				lacks = append(lacks, "lacks the "+name)
			} else if definition != here[name] {
				lacks = append(lacks, "has another "+name)
			}
		}
		return lacks, err
	})
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		return errors.New("distribute: everything is done, but servers would not work at every node: " + strings.Join(wrong, "; ") +
			"; tell a node everything again: select start_metadata_sync_to_node('…', 5432)")
	}
	return nil
}

// onNodes asks each node. It returns what judge finds wrong with the answers, and which nodes do not answer.
func (d distributor) onNodes(ctx context.Context, question string, judge func(answer string) ([]string, error)) (wrong []string, err error) {
	rows, err := d.conn.Query(ctx, `select nodename || ':' || nodeport, success, result
		from run_command_on_all_nodes($1, give_warning_for_connection_errors => true) join pg_dist_node using (nodeid)
		order by nodeid`, question)
	if err != nil {
		return nil, fmt.Errorf("distribute: %w", err)
	}
	type answer struct {
		Node    string
		Success bool
		Result  string
	}
	answers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[answer])
	if err != nil {
		return nil, fmt.Errorf("distribute: %w", err)
	}
	for _, answer := range answers {
		found := []string{"does not answer: " + strings.Join(strings.Fields(answer.Result), " ")}
		if answer.Success {
			if found, err = judge(answer.Result); err != nil {
				return nil, err
			}
		}
		for _, each := range found {
			wrong = append(wrong, "node "+answer.Node+" "+each)
		}
	}
	return wrong, nil
}

// unfit lists the faults of a node that would make a later step fail, one a line. While a large table is copied, the coordinator needs
// a replication slot and a sender for each node and one of each besides. A node may have no table of the service's before it is told of it.
const unfit = `select coalesce(string_agg(fault, E'\n'), '') from (values
	(current_setting('wal_level') <> 'logical', 'has a wal_level that is not logical'),
	(current_setting('max_prepared_transactions')::int < current_setting('max_connections')::int, 'has max_prepared_transactions below max_connections'),
	(coalesce(current_setting('output_plugin_libraries', true), 'pgoutput, citus, *') !~ 'citus|[*]', 'has output_plugin_libraries without citus'),
	(current_setting('max_replication_slots')::int - (select count(*) from pg_replication_slots) < %[1]d, 'has fewer than %[1]d free max_replication_slots'),
	(current_setting('max_wal_senders')::int - (select count(*) from pg_stat_replication) < %[1]d, 'has fewer than %[1]d free max_wal_senders'),
	(current_setting('max_logical_replication_workers')::int < %[1]d, 'has max_logical_replication_workers below %[1]d'),
	(current_setting('max_worker_processes')::int < %[1]d, 'has max_worker_processes below %[1]d'),
	((select extversion from pg_extension where extname = 'citus') <> '%[2]s', 'has a Citus that is not version %[2]s'),
	((select groupid from pg_dist_local_group) <> 0 and exists (select from pg_class left join pg_dist_partition on logicalrelid = oid
		where relnamespace = current_schema()::regnamespace and relname in ('%[3]s') and logicalrelid is null),
		'has tables of the service already: its database must be empty')
) as faults (wrong, fault) where wrong`

// checkSettings returns an error that names the nodes that would make a later step fail.
func (d distributor) checkSettings(ctx context.Context) error {
	var nodes int
	var version string
	if err := d.conn.QueryRow(ctx, `select (select count(*) from pg_dist_node where noderole = 'primary'),
		(select extversion from pg_extension where extname = 'citus')`).Scan(&nodes, &version); err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	wrong, err := d.onNodes(ctx, fmt.Sprintf(unfit, nodes+1, version, strings.Join(tables(), "', '")), func(answer string) ([]string, error) {
		return strings.FieldsFunc(answer, func(r rune) bool { return r == '\n' }), nil
	})
	if err == nil && len(wrong) > 0 {
		err = errors.New("distribute: " + strings.Join(wrong, "; "))
	}
	return err
}

func definitions(text string) (found map[string]string, err error) {
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("distribute: %w", err)
	}
	return found, nil
}
