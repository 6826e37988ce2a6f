package migrations

import (
	"slices"
	"strings"
)

// These variables tell where the tables go on a Citus cluster (docs/scaling.md).
var (
	// ReferenceTables have a copy on each node.
	ReferenceTables = []string{"clients", "client_logos", "webhook_endpoints", "database_history", "goose_db_version", "user_addresses"}

	// ShardedTables are spread over the nodes by a column.
	ShardedTables = []ShardedTable{
		{"users", "user_id", ""},
		{"connections", "user_id", "users"},
		{"account_sessions", "user_id", "users"},
		{"known_browsers", "user_id", "users"},
		{"notices", "recipient", "users"},
		{"revoked_access_tokens", "user_id", "users"},
		{"daily_steps", "user_id", "users"},
		{"step_corrections", "user_id", "users"},
		{"cycling_activities", "user_id", "users"},
		{"cycling_adjustments", "user_id", "users"},
		{"webhook_changes", "user_id", "users"},
		{"webhook_events", "user_id", "users"},
		{"webhook_attempts", "user_id", "users"},
		{"audit_log", "subject", "users"},
		{"grant_directory", "grant_id", ""},
		{"authorization_requests", "request_id", ""},
		{"sign_ins", "sign_in_id", "authorization_requests"},
		{"code_emails", "sign_in_id", "authorization_requests"},
		{"sign_in_limits", "key", ""},
		{"sign_in_events", "key", "sign_in_limits"},
		{"operator_sessions", "secret_hash", ""},
		{"usage_hours", "client_id", ""},
		{"usage_minutes", "client_id", "usage_hours"},
		{"client_errors", "client_id", "usage_hours"},
		{"client_error_counts", "client_id", "usage_hours"},
		{"usage_days", "client_id", "usage_hours"},
		{"portal_sessions", "client_id", "usage_hours"},
		{"change_requests", "client_id", "usage_hours"},
	}

	// CoordinatorTables stay on the coordinator, and every node finds them there. until 1.3.0: nothing but programs of 1.0.0 writes webhook_queue, or
	// takes another turn than limiter.
	CoordinatorTables = []string{"webhook_queue", "turns", "sweeps", "keyset_marks", "servers", "database_sizes", "rate_limits", "usage_folds", "latency_hours"}

	// firstPlaced are the tables that are distributed before the others, in this order. Citus plans no statement of some that join
	// two of them if one is distributed and the other is not, so they follow each other (TestStatementsBetweenStepsOnACluster).
	firstPlaced = []string{"users", "authorization_requests", "connections", "clients", "webhook_changes", "webhook_attempts",
		"webhook_endpoints", "webhook_events", "webhook_queue"}

	// ForeignKeys are all foreign keys of the schema. Citus distributes no table that has one: they are dropped before and added
	// again after.
	ForeignKeys = []ForeignKey{
		{"client_logos", "client_id", "clients", ""},
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
		{"webhook_attempts", "user_id, event_id", "webhook_events", "on delete cascade"},
		{"authorization_requests", "client_id", "clients", ""},
		{"usage_hours", "client_id", "clients", ""},
		{"usage_minutes", "client_id", "clients", ""},
		{"client_errors", "client_id", "clients", ""},
		{"client_error_counts", "client_id", "clients", ""},
		{"portal_sessions", "client_id", "clients", ""},
		{"change_requests", "client_id", "clients", ""},
	}
)

// ShardedTable is spread by a column. If it has a leader, its rows are where the leader's rows with the same value are.
type ShardedTable struct{ Name, Column, Leader string }

// ForeignKey refers to columns of the same names in another table. Cascade is the clause "on delete cascade", or empty.
type ForeignKey struct{ Table, Columns, RefersTo, Cascade string }

// Name returns the name of the constraint.
func (k ForeignKey) Name() string {
	return k.Table + "_" + strings.ReplaceAll(k.Columns, ", ", "_") + "_fkey"
}

// Tables returns the names of all tables, in the order in which they are placed.
func Tables() []string {
	all := slices.Clone(firstPlaced)
	add := func(table string) {
		if !slices.Contains(all, table) {
			all = append(all, table)
		}
	}
	for _, table := range ShardedTables {
		add(table.Name)
	}
	for _, table := range slices.Concat(ReferenceTables, CoordinatorTables) {
		add(table)
	}
	return all
}
