// Package demo is the embedded default: everything that the service needs, on this machine, with one command.
//
// It starts a private PostgreSQL, a certificate authority, a mail catcher, the service itself and an example partner
// (package partner, on the Go SDK), all on loopback, fills in two users with a year of activity, and keeps
// adding today's. What it must be:
//
//   - The service is the real one, put together by package app as `connect-svc serve` does; the demo reaches into it
//     nowhere. Even the connection that exists from the start was made by package oauth, with the clock of its
//     database connections set back 30 days, since a connection can read only from the day of consent on.
//   - Everything is under one directory, and found again by the next start; each part is made when it is missing, so
//     that a start that was interrupted is mended by the next. Secrets are files that only their owner can read.
//   - It ends whole: Ctrl-C, a part that fails or a port that is taken end all of it, the database last.
package demo
