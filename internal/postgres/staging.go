package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// IsSharded is an SQL expression that is true if users are spread over several databases (Citus). There, a statement cannot lock rows
// in several databases.
const IsSharded = "to_regclass('pg_catalog.pg_dist_node') is not null"

// Stage copies rows to the temporary table staged, which exists in this transaction only and is not written to the write-ahead log. It
// pauses in between. From then on each statement of the transaction may take as long as limit; 0 means any time.
func Stage(ctx context.Context, tx pgx.Tx, limit time.Duration, columns, types []string, rows pgx.CopyFromSource) error {
	definitions := slices.Clone(columns)
	for i, typed := range types {
		definitions[i] += " " + typed
	}
	for _, statement := range []string{
		fmt.Sprintf("set local statement_timeout = %d", limit.Milliseconds()),
		"set local idle_in_transaction_session_timeout = 0",
		"set local work_mem = '64MB'", // of one sort, on one connection
		"set local jit = off",         // compiling would take longer than it saves
		"create temporary table staged (" + strings.Join(definitions, ", ") + ") on commit drop",
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	pace, n := newPace(), 0
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"staged"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		if n++; n%copiedRows == 0 {
			if err := pace.yield(ctx); err != nil {
				return nil, err
			}
		}
		if !rows.Next() {
			return nil, rows.Err()
		}
		return rows.Values()
	}))
	return Wrap("copy", err)
}

// The size of a part, which takes some ten milliseconds: rows that are copied, and pages of a temporary table that are written from it,
// which have some four thousand rows.
const (
	copiedRows = 4096
	partPages  = 32
)

// Part is a piece of a temporary table.
type Part struct {
	From, Until string    // ctid of the first row, and of the first one after the last
	First, Last uuid.UUID // user_id of the first and the last row
	Share       float64   // of the table, up to the end of this part: 0 to 1
}

// InPart is true for a row of the temporary table that is in a part. OfPart is true for a row of another table that may belong to a
// row in the part. Their parameters, $1 to $4, are [Part.Args]. The cast lets PostgreSQL read only the pages of the part.
const (
	InPart = "ctid >= ($1::text)::tid and ctid < ($2::text)::tid"
	OfPart = "user_id between $3::uuid and $4::uuid"
)

// Args returns the parameters of [InPart] and [OfPart].
func (p Part) Args() []any { return []any{p.From, p.Until, p.First, p.Last} }

// InParts calls act for each part of a temporary table, in order, and pauses in between. The rows must have been written in the order of
// their user_id. act uses no savepoint: more than 64 of them in a transaction slow PostgreSQL down for everybody.
func InParts(ctx context.Context, tx pgx.Tx, table string, act func(Part) error) error {
	var pages int64
	err := tx.QueryRow(ctx, "select pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint", table).Scan(&pages)
	if err != nil {
		return fmt.Errorf("measure %s: %w", table, err)
	}
	page := func(n int64) string { return fmt.Sprintf("(%d,0)", n) }
	user := "select user_id from " + table + " where " + InPart + " order by user_id "
	pace := newPace()
	for from := int64(0); from < pages; from += partPages {
		until := min(from+partPages, pages)
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
		if err := pace.yield(ctx); err != nil {
			return err
		}
	}
	return nil
}
