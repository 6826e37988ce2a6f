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
		if n++; n%partRows == 0 {
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

// partRows is the size of a part, which takes some ten milliseconds.
const partRows = 4096

// Number creates the temporary table, in this transaction only, from the rows of a query. Its column number is the place of a row in the
// order of key, columns of the query that begin with user_id: 1, 2, 3 and so on.
func Number(ctx context.Context, tx pgx.Tx, table, query, key string) error {
	for _, statement := range []string{
		fmt.Sprintf("create temporary table %s on commit drop as select row_number() over (order by %s) as number, rows.* from (%s) as rows", table, key, query),
		fmt.Sprintf("create unique index on %s (number)", table),
		"analyze " + table,
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("number the rows of %s: %w", table, err)
		}
	}
	return nil
}

// Part is a piece of a table that [Number] made. It has at least one row.
type Part struct {
	After, Until int64     // number of the last row before it, and of its last row
	First, Last  uuid.UUID // user_id of its first and its last row
	Share        float64   // of the table, up to the end of this part: 0 to 1
}

// InPart is true for a row of the temporary table that is in a part. OfPart is true for a row of another table that may belong to a
// row in the part. Their parameters, $1 to $4, are [Part.Args].
const (
	InPart = "number > $1::bigint and number <= $2::bigint"
	OfPart = "user_id between $3::uuid and $4::uuid"
)

// Args returns the parameters of [InPart] and [OfPart].
func (p Part) Args() []any { return []any{p.After, p.Until, p.First, p.Last} }

// InParts calls act for each part of a table that [Number] made, in order, and pauses in between. act uses no savepoint: more than 64 of
// them in a transaction slow PostgreSQL down for everybody.
func InParts(ctx context.Context, tx pgx.Tx, table string, act func(Part) error) error {
	var rows int64
	if err := tx.QueryRow(ctx, "select coalesce(max(number), 0) from "+table).Scan(&rows); err != nil {
		return fmt.Errorf("count the rows of %s: %w", table, err)
	}
	users := fmt.Sprintf("select f.user_id, l.user_id from %[1]s f, %[1]s l where f.number = $1 and l.number = $2", table)
	pace := newPace()
	for after := int64(0); after < rows; after += partRows {
		part := Part{After: after, Until: min(after+partRows, rows)}
		part.Share = float64(part.Until) / float64(rows)
		if err := tx.QueryRow(ctx, users, part.After+1, part.Until).Scan(&part.First, &part.Last); err != nil {
			return fmt.Errorf("begin a part of %s: %w", table, err)
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
