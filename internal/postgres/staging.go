package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// IsSharded is an SQL expression: users are spread over several databases (Citus). One statement cannot lock rows in several
// of them there.
const IsSharded = "to_regclass('pg_catalog.pg_dist_node') is not null"

// Staged is the temporary table into which [Stage] copies.
const Staged = "staged"

// Stage copies rows to a temporary table of this transaction, which nobody else sees and which is written to no log. Each
// statement of the transaction may then take the time that is given, 0 for any.
func Stage(ctx context.Context, tx pgx.Tx, limit time.Duration, columns, types []string, rows pgx.CopyFromSource) error {
	create := "create temporary table " + Staged + " ("
	for i, name := range columns {
		if i > 0 {
			create += ", "
		}
		create += name + " " + types[i]
	}
	for _, statement := range []string{
		fmt.Sprintf("set local statement_timeout = %d", limit.Milliseconds()),
		"set local idle_in_transaction_session_timeout = 0",
		"set local work_mem = '64MB'", // of one sort, on one connection
		"set local jit = off",         // compiling takes longer than it saves
		create + ") on commit drop",
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{Staged}, columns, rows)
	return Wrap("copy", err)
}

// A temporary table has up to 30 parts, none below 256 pages, some ten thousand rows. A part takes up to two savepoints, and with
// more than 64 of them in one transaction PostgreSQL is slower for everybody.
const (
	maxParts     = 30
	minPartPages = 256
)

// Part is a piece of a temporary table.
type Part struct {
	From, Until string    // ctid of the first row, and of the first one after the last
	First, Last uuid.UUID // user_id of the first and the last row
	Share       float64   // of the table, up to the end of this part: 0 to 1
}

// InPart is the condition that a row of the temporary table is in a part, and OfPart the condition that another table's row may
// belong to one in it. Their parameters, $1 to $4, are [Part.Args]. The cast lets PostgreSQL read those pages alone.
const (
	InPart = "ctid >= ($1::text)::tid and ctid < ($2::text)::tid"
	OfPart = "user_id between $3::uuid and $4::uuid"
)

// Args are the parameters of [InPart] and [OfPart].
func (p Part) Args() []any { return []any{p.From, p.Until, p.First, p.Last} }

// InParts calls act for one part after the other of a temporary table whose rows were written in the order of their user_id.
func InParts(ctx context.Context, tx pgx.Tx, table string, act func(Part) error) error {
	var pages int64
	err := tx.QueryRow(ctx, "select pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint", table).Scan(&pages)
	if err != nil {
		return fmt.Errorf("measure %s: %w", table, err)
	}
	page := func(n int64) string { return fmt.Sprintf("(%d,0)", n) }
	user := "select user_id from " + table + " where " + InPart + " order by user_id "
	size := max(minPartPages, (pages+maxParts-1)/maxParts)
	for from := int64(0); from < pages; from += size {
		until := min(from+size, pages)
		part := Part{From: page(from), Until: page(until), Share: float64(until) / float64(pages)}
		if err := tx.QueryRow(ctx, user+"limit 1", page(from), page(from+1)).Scan(&part.First); err != nil {
			return fmt.Errorf("begin a part of %s: %w", table, err)
		}
		if err := tx.QueryRow(ctx, user+"desc limit 1", page(until-1), page(until)).Scan(&part.Last); err != nil {
			return fmt.Errorf("end a part of %s: %w", table, err)
		}
		if err := act(part); err != nil {
			return err
		}
	}
	return nil
}
