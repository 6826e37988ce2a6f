package citus

import (
	"context"
	"fmt"
	"slices"

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
