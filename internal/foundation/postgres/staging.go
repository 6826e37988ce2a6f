package postgres

import (
	"context"
	"errors"
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
// pauses in between. From then on each statement of the transaction may take as long as limit; 0 means any time, also between statements.
func Stage(ctx context.Context, tx pgx.Tx, limit time.Duration, columns, types []string, rows pgx.CopyFromSource) error {
	definitions := slices.Clone(columns)
	for i, typed := range types {
		definitions[i] += " " + typed
	}
	timeouts := fmt.Sprintf("set local statement_timeout = %d", limit.Milliseconds())
	if limit == 0 {
		timeouts += "; set local idle_in_transaction_session_timeout = 0"
	}
	for _, statement := range []string{
		timeouts,
		"set local work_mem = '64MB'", // of one sort, on one connection
		"set local jit = off",         // compiling would take longer than it saves
		"create temporary table staged (" + strings.Join(definitions, ", ") + ") on commit drop",
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	pace, n := pace{time.Now()}, 0
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

// partRows is the size of a part, which takes some ten milliseconds. A user with more rows makes a part larger.
const partRows = 4096

// Part is a piece of a temporary table: all rows of some users, who are neighbours in the order of user_id. It has at least one row.
type Part struct {
	First, Last uuid.UUID
	Rows        int64
	Share       float64 // of the table, up to the end of this part: 0 to 1
}

// InPart is true for a row that belongs to a user of a part, in the temporary table and in others that have a user_id. Its parameters, $1
// and $2, are [Part.Args].
const InPart = "user_id between $1::uuid and $2::uuid"

// Args returns the parameters of [InPart].
func (p Part) Args() []any { return []any{p.First, p.Last} }

// InParts calls act for each part of a temporary table, in the order of user_id, and pauses in between. It adds an index to the table. act
// uses no savepoint: more than 64 of them in a transaction slow PostgreSQL down for everybody.
func InParts(ctx context.Context, tx pgx.Tx, table string, act func(Part) error) error {
	if _, err := tx.Exec(ctx, fmt.Sprintf("create index if not exists %[1]s_users on %[1]s (user_id)", table)); err != nil {
		return fmt.Errorf("sort %s: %w", table, err)
	}
	var rows, before int64
	var next *uuid.UUID // the first user of the next part
	if err := tx.QueryRow(ctx, fmt.Sprintf("select count(*), (select user_id from %[1]s order by user_id limit 1) from %[1]s", table)).
		Scan(&rows, &next); err != nil {
		return fmt.Errorf("count %s: %w", table, err)
	}
	measure := fmt.Sprintf(`
with part as materialized (
	select coalesce((select user_id from %[1]s where user_id >= $1 order by user_id offset %[2]d limit 1),
		(select user_id from %[1]s order by user_id desc limit 1)) as last
)
select last, (select count(*) from %[1]s where user_id between $1 and last),
	(select user_id from %[1]s where user_id > last order by user_id limit 1)
from part`, table, partRows-1)
	for pace := (pace{time.Now()}); next != nil; {
		part := Part{First: *next}
		if err := tx.QueryRow(ctx, measure, part.First).Scan(&part.Last, &part.Rows, &next); err != nil {
			return fmt.Errorf("find a part of %s: %w", table, err)
		}
		before += part.Rows
		part.Share = float64(before) / float64(rows)
		if err := act(part); err != nil {
			return err
		}
		if err := pace.yield(ctx); err != nil {
			return err
		}
	}
	return nil
}

// These functions turn what the generated queries return into what the domains return.

// Wrap prefixes err with the name of the act that failed. It returns nil for nil.
func Wrap(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", act, err)
}

// WrapNoRows is [Wrap], but returns noRows if the statement found no row.
func WrapNoRows(act string, err, noRows error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return noRows
	}
	return Wrap(act, err)
}

// NoRowsAs returns meaning if the statement found no row because its conditions did not hold, and err otherwise.
func NoRowsAs(err, meaning error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return meaning
	}
	return err
}

// Sweep carries a statement out until it deletes no row. Its limit keeps it within its timeout, and says nothing of how many rows expire in a minute.
func Sweep[Params any](ctx context.Context, statement func(context.Context, Params) (int64, error), params Params) (err error) {
	for deleted := int64(1); err == nil && deleted > 0; {
		deleted, err = statement(ctx, params)
	}
	return err
}

// Map converts each row. The result is never nil.
func Map[Row, T any](rows []Row, convert func(Row) T) []T {
	list := make([]T, len(rows))
	for i, row := range rows {
		list[i] = convert(row)
	}
	return list
}

// Null returns nil for the zero value, which [Value] turns back into the zero value.
func Null[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// Value returns the value of a nullable column, or the zero value if it is null.
func Value[T any](column *T) (value T) {
	if column != nil {
		value = *column
	}
	return value
}
