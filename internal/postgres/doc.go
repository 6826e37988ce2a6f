// Package postgres opens the database and knows what is PostgreSQL about it: the pool and its time-outs, transactions,
// migrations, error codes, and the clock.
//
// # Invariants
//
//   - The service has one clock, the database's: SQL reads it through connect_now(), never through now(). A [Clock]
//     shifts it for the connections of one pool, and gives the same time to Go code, so that tests and the demo can
//     travel without a sleep. The zero Clock is the real time and costs no statement.
//   - No error of this package holds a password or the database's address as it was configured: such texts reach logs.
//   - Every session runs in UTC, so that a cast between date and timestamptz means the same everywhere.
//
// It never knows a table of a domain. The private PostgreSQL of tests and the demo is internal/local/embedded.
package postgres
