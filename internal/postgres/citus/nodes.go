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
	rows, err := d.conn.Query(ctx, `select nodename || ':' || nodeport, success, result
		from run_command_on_all_nodes($1, give_warning_for_connection_errors => true) join pg_dist_node using (nodeid)
		order by nodeid`, needed)
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	type answer struct {
		Node    string
		Success bool
		Result  string
	}
	nodes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[answer])
	if err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	var wrong []string
	for _, node := range nodes {
		if !node.Success {
			wrong = append(wrong, "node "+node.Node+" did not answer: "+strings.Join(strings.Fields(node.Result), " "))
			continue
		}
		there, err := definitions(node.Result)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(here)) {
			if definition, known := there[name]; !known {
				wrong = append(wrong, "node "+node.Node+" lacks the "+name)
			} else if definition != here[name] {
				wrong = append(wrong, "node "+node.Node+" has another "+name)
			}
		}
	}
	if len(wrong) > 0 {
		return errors.New("distribute: everything is done, but servers would not work at every node: " + strings.Join(wrong, "; ") +
			"; tell a node everything again: select start_metadata_sync_to_node('…', 5432)")
	}
	return nil
}

func definitions(text string) (found map[string]string, err error) {
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("distribute: %w", err)
	}
	return found, nil
}
