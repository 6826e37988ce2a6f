package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Where the tables go on a Citus cluster (docs/scaling.md). A table that is not here stays on the coordinator.
var (
	// referenceTables are whole on each node.
	referenceTables = []string{"clients", "client_logos", "webhook_endpoints"}

	// shardedTables are spread by a column. Those with one leader have their rows where its rows with the same value are.
	shardedTables = []struct{ name, column, leader string }{
		{"users", "user_id", ""},
		{"connections", "user_id", "users"},
		{"account_sessions", "user_id", "users"},
		{"known_browsers", "user_id", "users"},
		{"revoked_access_tokens", "user_id", "users"},
		{"daily_steps", "user_id", "users"},
		{"step_corrections", "user_id", "users"},
		{"cycling_activities", "user_id", "users"},
		{"cycling_adjustments", "user_id", "users"},
		{"webhook_changes", "user_id", "users"},
		{"webhook_events", "user_id", "users"},
		{"webhook_attempts", "user_id", "users"},
		{"audit_log", "subject", "users"},
		{"user_addresses", "address", ""},
		{"grant_directory", "grant_id", ""},
		{"authorization_requests", "request_id", ""},
		{"sign_ins", "sign_in_id", "authorization_requests"},
		{"sign_in_limits", "key", ""},
		{"usage_hours", "client_id", ""},
		{"usage_minutes", "client_id", "usage_hours"},
		{"client_errors", "client_id", "usage_hours"},
	}

	// coordinatorTables stay on the coordinator, and every node finds them there.
	coordinatorTables = []string{"webhook_queue", "code_emails", "operator_sessions", "turns", "keyset_marks", "servers", "database_sizes",
		"rate_limits", "goose_db_version"}

	// foreignKeys are all that there are. Citus distributes no table that has one; they are dropped before and added after.
	// Until then a row can lose what it refers to: such orphans are deleted.
	foreignKeys = []struct{ table, columns, refersTo, cascade string }{
		{"client_logos", "client_id", "clients", ""},
		{"webhook_endpoints", "client_id", "clients", ""},
		{"connections", "user_id", "users", "on delete cascade"},
		{"connections", "client_id", "clients", ""},
		{"account_sessions", "user_id", "users", "on delete cascade"},
		{"known_browsers", "user_id", "users", "on delete cascade"},
		{"revoked_access_tokens", "user_id", "users", "on delete cascade"},
		{"daily_steps", "user_id", "users", "on delete cascade"},
		{"step_corrections", "user_id", "users", "on delete cascade"},
		{"cycling_activities", "user_id", "users", "on delete cascade"},
		{"cycling_adjustments", "user_id", "users", "on delete cascade"},
		{"webhook_changes", "user_id, client_id", "connections", "on delete cascade"},
		{"webhook_events", "client_id", "clients", ""},
		{"webhook_attempts", "user_id, event_id", "webhook_events", "on delete cascade"},
		{"authorization_requests", "client_id", "clients", ""},
		{"usage_hours", "client_id", "clients", ""},
		{"usage_minutes", "client_id", "clients", ""},
		{"client_errors", "client_id", "clients", ""},
	}
)

// lockWait is how long a step waits for a table's lock before it lets others pass and tries again. It is less than PostgreSQL
// waits before it looks for a deadlock (deadlock_timeout, 1 s), so that no statement of the service is broken off for a step.
const lockWait = 300 * time.Millisecond

// Distribute spreads the tables of a migrated database over the nodes of the Citus cluster whose coordinator it is: shards
// of them, 1 to 1024. The service goes on meanwhile. It is done in steps; done is called after each that changed something.
// Called again after it was cut off, it goes on where it was. The error is one line.
func Distribute(ctx context.Context, url string, shards int, done func(step string, took time.Duration)) error {
	at, err := parseURL(url)
	if err != nil {
		return err
	}
	config := at.ConnConfig
	config.RuntimeParams["statement_timeout"] = "0"
	applyDefaults(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return connectError(config, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	d := distributor{conn, done}
	if err := d.check(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		d.dropForeignKeys,
		func(ctx context.Context) error {
			return d.each(ctx, referenceTables, "not "+isDistributed, "copy to each node", "select create_reference_table($1)")
		},
		func(ctx context.Context) error { return d.shard(ctx, shards) },
		func(ctx context.Context) error {
			return d.each(ctx, coordinatorTables, "not "+isDistributed, "tell each node where it is", "select citus_add_local_table_to_metadata($1)")
		},
		d.addForeignKeys,
		d.truncate,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type distributor struct {
	conn *pgx.Conn
	done func(step string, took time.Duration)
}

// check refuses a database that cannot be distributed.
func (d distributor) check(ctx context.Context) error {
	needed, err := expectedVersion()
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
		{"current_setting('wal_level') = 'logical'",
			"wal_level is not logical: tables can not be moved while they are written to"},
		{fmt.Sprintf("coalesce((select max(version_id) from goose_db_version), 0) = %d", needed),
			"the schema is not this program's: run connect-svc migrate up first"},
		{"pg_try_advisory_lock(hashtextextended('connect-svc.distribute', 0))",
			"the database is being distributed already"},
	} {
		var holds bool
		if err := d.conn.QueryRow(ctx, "select "+wanted.condition).Scan(&holds); err != nil && !isViolation(err, codeUndefinedTable, "") {
			return fmt.Errorf("distribute: %w", err)
		}
		if !holds {
			return errors.New("distribute: " + wanted.otherwise)
		}
	}
	return nil
}

// step runs a statement, again and again where it would hold up others by waiting for a lock.
func (d distributor) step(ctx context.Context, name, statement string, args ...any) error {
	began := time.Now()
	for {
		_, err := d.conn.Exec(ctx, fmt.Sprintf("set lock_timeout = %d", lockWait.Milliseconds()))
		if err == nil {
			_, err = d.conn.Exec(ctx, statement, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		}
		if isViolation(err, codeLockNotAvailable, "") && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("distribute: %s: %w", name, err)
		}
		d.done(name, time.Since(began))
		return nil
	}
}

func (d distributor) holds(ctx context.Context, condition string, args ...any) (holds bool, err error) {
	err = d.conn.QueryRow(ctx, "select "+condition, args...).Scan(&holds)
	return holds, Wrap("distribute", err)
}

// isDistributed is a condition on a table.
const isDistributed = "exists (select from pg_dist_partition where logicalrelid = $1::text::regclass)"

// each takes a step for those of the tables that meet a condition.
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

func constraintOf(table, columns string) string {
	return table + "_" + strings.ReplaceAll(columns, ", ", "_") + "_fkey"
}

func (d distributor) hasForeignKey(ctx context.Context, table, columns string) (bool, error) {
	return d.holds(ctx, "exists (select from pg_constraint where conrelid = $1::text::regclass and conname = $2)",
		table, constraintOf(table, columns))
}

// dropForeignKeys drops them in one statement, of those tables that are not distributed yet.
func (d distributor) dropForeignKeys(ctx context.Context) error {
	var drops []string
	for _, key := range foreignKeys {
		distributed, err := d.holds(ctx, isDistributed, key.table)
		if err != nil {
			return err
		}
		there, err := d.hasForeignKey(ctx, key.table, key.columns)
		if err != nil {
			return err
		}
		if there && !distributed {
			drops = append(drops, fmt.Sprintf("alter table %s drop constraint %s", key.table, constraintOf(key.table, key.columns)))
		}
	}
	if len(drops) == 0 {
		return nil
	}
	return d.step(ctx, fmt.Sprintf("drop %d foreign keys", len(drops)), strings.Join(drops, ";"))
}

// fewRows is up to how many rows a table is locked while it is copied: for less than a second. A larger one is copied while it
// is written to, which takes some seconds for the least.
const fewRows = 10_000

func (d distributor) shard(ctx context.Context, shards int) error {
	for _, table := range shardedTables {
		if distributed, err := d.holds(ctx, isDistributed, table.name); err != nil {
			return err
		} else if distributed {
			continue
		}
		large, err := d.holds(ctx, fmt.Sprintf("exists (select from %s offset %d)", table.name, fewRows))
		if err != nil {
			return err
		}
		name, function := table.name+": shard by "+table.column, "create_distributed_table"
		if large {
			name, function = name+", while it is written to", "create_distributed_table_concurrently"
		}
		options, last := "colocate_with => $3", any(table.leader)
		if table.leader == "" {
			options, last = "colocate_with => 'none', shard_count => $3", shards
		}
		if err := d.step(ctx, name, fmt.Sprintf("select %s($1, $2, %s)", function, options), table.name, table.column, last); err != nil {
			return err
		}
	}
	return nil
}

// addForeignKeys adds them without a look at the rows, which takes a lock for a moment only, and has the rows checked after
// that, while the tables are read and written.
func (d distributor) addForeignKeys(ctx context.Context) error {
	for _, key := range foreignKeys {
		name := constraintOf(key.table, key.columns)
		there, err := d.hasForeignKey(ctx, key.table, key.columns)
		if err != nil {
			return err
		}
		if !there {
			if err := d.step(ctx, name+": add", fmt.Sprintf("alter table %s add constraint %s foreign key (%s) references %s %s not valid",
				key.table, name, key.columns, key.refersTo, key.cascade)); err != nil {
				return err
			}
		}
		valid, err := d.holds(ctx, "convalidated from pg_constraint where conrelid = $1::text::regclass and conname = $2", key.table, name)
		if err != nil {
			return err
		}
		if valid {
			continue
		}
		if key.cascade != "" {
			same := make([]string, 0, 2)
			for column := range strings.SplitSeq(key.columns, ", ") {
				same = append(same, "other."+column+" = "+key.table+"."+column)
			}
			if err := d.step(ctx, name+": delete rows whose owner was deleted meanwhile", fmt.Sprintf(
				"delete from %s where not exists (select from %s other where %s)", key.table, key.refersTo, strings.Join(same, " and "))); err != nil {
				return err
			}
		}
		if err := d.step(ctx, name+": check", fmt.Sprintf("alter table %s validate constraint %s", key.table, name)); err != nil {
			return err
		}
	}
	return nil
}

// truncate frees what the tables took on the coordinator.
func (d distributor) truncate(ctx context.Context) error {
	tables := append([]string{}, referenceTables...)
	for _, table := range shardedTables {
		tables = append(tables, table.name)
	}
	return d.each(ctx, tables, "pg_relation_size($1::text::regclass) > 0", "free the coordinator's disk",
		"select truncate_local_data_after_distributing_table($1)")
}
