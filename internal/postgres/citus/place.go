package citus

import (
	"context"
	"fmt"
	"slices"

	"connect-svc/internal/postgres"
	"connect-svc/migrations"
)

// The kinds of tables that Citus knows. A step that was broken off can leave a table local that goes elsewhere.
const (
	unknown     = ""
	local       = "local" // on the coordinator
	onEachNode  = "reference"
	distributed = "distributed"
)

// tables returns all tables, in the order in which they are placed.
func tables() []string {
	all := slices.Clone(migrations.FirstPlaced)
	add := func(table string) {
		if !slices.Contains(all, table) {
			all = append(all, table)
		}
	}
	for _, table := range migrations.ShardedTables {
		add(table.Name)
	}
	for _, table := range slices.Concat(migrations.ReferenceTables, migrations.CoordinatorTables) {
		add(table)
	}
	return all
}

func (d distributor) kind(ctx context.Context, table string) (kind string, err error) {
	err = d.conn.QueryRow(ctx, `select coalesce((
		select case when partmethod = 'h' then 'distributed' when repmodel = 't' then 'reference' when colocationid = 0 then 'local' else 'other' end
		from pg_dist_partition where logicalrelid = $1::text::regclass), '')`, table).Scan(&kind)
	return kind, postgres.Wrap("distribute", err)
}

// wanted returns the kind that a table is to have.
func wanted(table string) string {
	switch {
	case slices.Contains(migrations.ReferenceTables, table):
		return onEachNode
	case slices.Contains(migrations.CoordinatorTables, table):
		return local
	}
	return distributed
}

func (d distributor) isPlaced(ctx context.Context, table string) (bool, error) {
	kind, err := d.kind(ctx, table)
	return kind == wanted(table), err
}

// place has each table go where it belongs.
func (d distributor) place(ctx context.Context, shards int) error {
	for _, table := range tables() {
		kind, err := d.kind(ctx, table)
		if err != nil {
			return err
		}
		switch want := wanted(table); {
		case kind == want:
			continue
		case want == onEachNode:
			err = d.step(ctx, table+": copy to each node", "select create_reference_table($1)", table)
		case want == local:
			err = d.step(ctx, table+": tell each node where it is", "select citus_add_local_table_to_metadata($1)", table)
		default:
			i := slices.IndexFunc(migrations.ShardedTables, func(sharded migrations.ShardedTable) bool { return sharded.Name == table })
			err = d.shard(ctx, migrations.ShardedTables[i], kind, shards)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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
		name, function = name+", while it is written to", "create_distributed_table_concurrently"
	}
	options, last := "colocate_with => $3", any(table.Leader)
	if table.Leader == "" {
		options, last = "colocate_with => 'none', shard_count => $3", shards
	}
	return d.step(ctx, name, fmt.Sprintf("select %s($1, $2, %s)", function, options), table.Name, table.Column, last)
}
