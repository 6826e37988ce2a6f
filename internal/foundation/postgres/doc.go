// Package postgres opens the database and knows its PostgreSQL side: the pool and its timeouts, transactions, error codes,
// and the clock.
//
// # Invariants
//
//   - Every statement waits for its connection in the fair queue (TestPoolHasNoOtherMethods, TestBatchesAreQueued).
//   - Strangers use at most a quarter of the connections at a time (TestStrangersShareAQuarter).
//   - The service has one clock, the clock of the database. SQL reads it through connect_now(), never through now(). A [Clock]
//     shifts it for the connections of one pool, and gives the same time to Go code, so that tests and the demo can travel in
//     time. The zero Clock is the real time and costs no statement (TestClock, TestZeroClockSetsNothing).
//   - No error of this package holds a password or the database's address as it was configured, because errors are logged
//     (TestOpenErrors).
//   - Every session runs in UTC, so that a cast between date and timestamptz means the same everywhere (TestOpenDefaultsYieldToURL).
//   - Neither this package nor another one of the foundation names a table of a domain
//     (owners.TestFoundationNamesNoTableOfADomain).
//
// The embedded PostgreSQL of tests and the demo is internal/local/embedded.
package postgres
