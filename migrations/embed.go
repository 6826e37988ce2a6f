// Package migrations holds the schema of the database: one file a subject, applied in the order of their numbers, each
// with its way back. Released migrations stay as they are, and a later change is a file of its own. They are embedded in the
// binary, so that a server always knows which version it expects, and sqlc reads the same files as its schema. cluster.go tells
// where each table goes on a Citus cluster.
package migrations

import "embed"

// Files are the migrations in goose's format, `NNNN_name.sql`.
//
//go:embed *.sql
var Files embed.FS

// Releases has the newest migration of each release. A release adds its own, as it does to released.sum.
var Releases = map[string]int64{"1.0.0": 10, "1.1.0": 18}
