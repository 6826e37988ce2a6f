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
	codeDeadlock            = "40P01"
	codeLockNotAvailable    = "55P03"
	codeQueryCanceled       = "57014"
	codeInternalError       = "XX000"
)

// phrases tell violations apart that a Citus node passes on from another one: what is inserted from a query comes back as an
// internal error with the other node's words.
var phrases = map[string]string{
	codeForeignKeyViolation: "violates foreign key constraint",
	codeUniqueViolation:     "violates unique constraint",
}

// IsUniqueViolation reports whether err says that the unique constraint or index of this name refused a row; the
// empty name stands for any.
func IsUniqueViolation(err error, constraint string) bool {
	return isViolation(err, codeUniqueViolation, constraint)
}

// IsForeignKeyViolation reports whether err says that the foreign key of this name refused a row; the empty name
// stands for any.
func IsForeignKeyViolation(err error, constraint string) bool {
	return isViolation(err, codeForeignKeyViolation, constraint)
}

// IsDeadlock reports whether err says that two transactions waited for each other, and that this one was chosen to fail.
func IsDeadlock(err error) bool { return isViolation(err, codeDeadlock, "") }

// IsLockNotAvailable reports whether err says that a lock was not free within lock_timeout.
func IsLockNotAvailable(err error) bool { return isViolation(err, codeLockNotAvailable, "") }

// IsUndefinedTable reports whether err says that there is no such table.
func IsUndefinedTable(err error) bool { return isViolation(err, codeUndefinedTable, "") }

// IsTimeout reports whether err says that a statement took longer than statement_timeout allows.
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

// isNamed says whether an error names a constraint. That of a shard has the shard's number behind its name, and a node that
// passes on another node's error leaves the name in the message alone.
func isNamed(err *pgconn.PgError, constraint string) bool {
	return strings.Contains(cmp.Or(err.ConstraintName, err.Message), constraint)
}
