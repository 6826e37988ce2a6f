// Package migrations holds the schema of the database: one file a change, applied in the order of their numbers,
// each with its way back. They are embedded in the binary, so that a server always knows which version it expects,
// and sqlc reads the same files as its schema.
package migrations

import "embed"

// Files are the migrations in goose's format, `NNNN_name.sql`.
//
//go:embed *.sql
var Files embed.FS
