package postgres

import (
	"cmp"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes, PostgreSQL manual appendix A.
const (
	codeForeignKeyViolation = "23503"
	codeUniqueViolation     = "23505"
	codeUndefinedTable      = "42P01"
	codeUndefinedColumn     = "42703"
	codeDeadlock            = "40P01"
	codeLockNotAvailable    = "55P03"
	codeQueryCanceled       = "57014"
	codeInternalError       = "XX000"
)

// phrases identify violations that a Citus node passes on from another node. If rows are inserted from a query, such a violation is
// an internal error with the message of the other node.
var phrases = map[string]string{
	codeForeignKeyViolation: "violates foreign key constraint",
	codeUniqueViolation:     "violates unique constraint",
}

// IsUniqueViolation reports whether err means that the unique constraint or index of this name refused a row. The
// empty name stands for any.
func IsUniqueViolation(err error, constraint string) bool {
	return isViolation(err, codeUniqueViolation, constraint)
}

// IsForeignKeyViolation reports whether err means that the foreign key of this name refused a row. The empty name
// stands for any.
func IsForeignKeyViolation(err error, constraint string) bool {
	return isViolation(err, codeForeignKeyViolation, constraint)
}

// IsDeadlock reports whether err means that two transactions waited for each other, and that PostgreSQL ended this one.
func IsDeadlock(err error) bool { return isViolation(err, codeDeadlock, "") }

// IsLockNotAvailable reports whether err means that a lock was not free within lock_timeout.
func IsLockNotAvailable(err error) bool { return isViolation(err, codeLockNotAvailable, "") }

// IsUndefinedTable reports whether err means that a table does not exist.
func IsUndefinedTable(err error) bool { return isViolation(err, codeUndefinedTable, "") }

// IsUndefinedColumn reports whether err means that a table lacks a column.
func IsUndefinedColumn(err error) bool { return isViolation(err, codeUndefinedColumn, "") }

// IsTimeout reports whether err means that a statement took longer than statement_timeout allows.
func IsTimeout(err error) bool { return isViolation(err, codeQueryCanceled, "") }

func isViolation(err error, code, constraint string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	phrase := phrases[code]
	passedOn := pgErr.Code == codeInternalError && phrase != "" && strings.Contains(pgErr.Message, phrase)
	return (pgErr.Code == code || passedOn) && (constraint == "" || isNamed(pgErr, constraint))
}

// isNamed reports whether an error names a constraint. The name of a shard's constraint ends with the number of the shard. A node
// that passes on the error of another node keeps the name only in the message.
func isNamed(err *pgconn.PgError, constraint string) bool {
	return strings.Contains(cmp.Or(err.ConstraintName, err.Message), constraint)
}
