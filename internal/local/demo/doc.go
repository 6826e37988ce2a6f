// Package demo runs everything that the service needs on this machine, with one command.
//
// It starts a private PostgreSQL, a certificate authority, a mail catcher, the service itself and an example partner
// (package connect.invalid/examples/partner, on the Go SDK), all on loopback, fills in two users with a year of activity, and keeps adding today's.
//
// The service is the real one, put together by package app as for `connect-svc serve`. Even the connection that exists from the start
// was made by package oauth, on a database connection whose clock was set back 30 days, because a connection can read only from the
// day of consent on.
//
// # Invariants
//
//   - Everything is in one directory, where the next start finds it. Missing parts are created, so that a start repairs an interrupted
//     one (TestDemo, TestFilesCutOff).
//   - An ephemeral demo keeps nothing (TestEphemeralKeepsNothing).
//   - The demo ends as a whole: Ctrl-C, a failed part or a port in use ends all of it, the database last (TestTakenPort).
//
// Secrets are files that only their owner can read.
package demo
