package postgres

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Code is an SQLSTATE code (PostgreSQL manual, appendix A).
type Code string

// The codes that the service distinguishes. LockNotAvailable means that a lock was not free within lock_timeout, and QueryCanceled
// that a statement took longer than statement_timeout allows.
const (
	ForeignKeyViolation Code = "23503"
	UniqueViolation     Code = "23505"
	UndefinedTable      Code = "42P01"
	UndefinedColumn     Code = "42703"
	UndefinedFunction   Code = "42883"
	DeadlockDetected    Code = "40P01"
	LockNotAvailable    Code = "55P03"
	QueryCanceled       Code = "57014"
	ReadOnly            Code = "25006"
	DiskFull            Code = "53100"

	internalError     Code = "XX000"
	protocolViolation Code = "08P01"
)

// phrases identify violations that a Citus node passes on from another node. If rows are inserted from a query, such a violation is
// an internal error with the message of the other node.
var phrases = map[Code]string{
	ForeignKeyViolation: "violates foreign key constraint",
	UniqueViolation:     "violates unique constraint",
}

// Is reports whether PostgreSQL returned an error with this code.
func Is(err error, code Code) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	phrase := phrases[code]
	passedOn := Code(pgErr.Code) == internalError && phrase != "" && strings.Contains(pgErr.Message, phrase)
	return Code(pgErr.Code) == code || passedOn
}

// clusterRefusals are parts of the messages with which a Citus cluster refuses a statement for a moment, by code. While a table moves to
// other nodes: the table has been switched over since the statement was planned, or the statement needs two tables of which one was not
// switched over yet. After a node has crashed: a connection that another node kept to it is broken.
var clusterRefusals = map[Code][]string{
	"40001":       {"does not exist"},
	"0A000":       {"direct joins between distributed and local tables", "is not distributed", "recursive complex joins"},
	internalError: {"is not distributed", "could not find valid entry for ", "failure on connection marked as essential"},
}

// isRefusedByCluster reports whether a cluster refused a statement for a moment. The statement has not happened, nor has its transaction.
func isRefusedByCluster(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && slices.ContainsFunc(clusterRefusals[Code(pgErr.Code)], func(part string) bool {
		return strings.Contains(pgErr.Message, part)
	})
}

// Violates reports whether the unique constraint or index of this name refused a row.
func Violates(err error, constraint string) bool {
	var pgErr *pgconn.PgError
	// The name of a shard's constraint ends with the number of the shard. A node that passes on the error of another node keeps the
	// name only in the message.
	return Is(err, UniqueViolation) && errors.As(err, &pgErr) && strings.Contains(cmp.Or(pgErr.ConstraintName, pgErr.Message), constraint)
}
