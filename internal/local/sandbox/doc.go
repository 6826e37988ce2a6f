// Package sandbox runs the service for a partner's tests: everything on loopback, with one client and synthetic users, on
// a database that is deleted when it stops. A test uses the driver, api/sandbox.yaml, to act as the user, to move the clock
// and to force errors.
//
// # Invariants
//
//   - The service is the real one, put together by package app as for `connect-svc serve`. Users consent through package
//     oauth, package activity writes activity, and package webhook sends webhooks. The clock that the driver moves is the
//     service's own (postgres.Clock), so that everything that expires does so by it.
//   - A forced answer is one that the contract has for the operation, and the partner edge writes it. The request that
//     gets it does not reach the service.
//   - `connect-svc serve` contains none of this: neither it nor package app imports this package, and no setting turns it
//     on. The sandbox listens on loopback alone, unless the driver asks for a token.
//   - A sandbox leaves nothing behind when it is stopped or a part of it fails. Any number of them run side by side.
//   - With a seed and a time, ids, secrets, data and clock are the same each time. What a user records depends on the kind, the user's number and the date alone, so that it is the same in each
//     sandbox.
package sandbox
