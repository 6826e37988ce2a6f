package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

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

// Map converts each row. The result is never nil.
func Map[Row, T any](rows []Row, of func(Row) T) []T {
	list := make([]T, len(rows))
	for i, row := range rows {
		list[i] = of(row)
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
