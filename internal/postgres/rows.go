package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// What the generated queries return, as the domains return it.

// Failed is an error with the name of the act that failed, or nil.
func Failed(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", act, err)
}

// Outcome is [Failed], unless the statement found no row: that means what the caller says.
func Outcome(act string, err, noRow error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return noRow
	}
	return Failed(act, err)
}

// NoRow replaces "no row", which is how a statement says that its conditions did not hold, by what it means.
func NoRow(err, meaning error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return meaning
	}
	return err
}

// List makes a list of rows, empty for none.
func List[Row, T any](rows []Row, of func(Row) T) []T {
	list := make([]T, len(rows))
	for i, row := range rows {
		list[i] = of(row)
	}
	return list
}

// Null is null for the zero value, and Value the zero value for null.
func Null[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// Value is what a column that may be null holds.
func Value[T any](column *T) (value T) {
	if column != nil {
		value = *column
	}
	return value
}
