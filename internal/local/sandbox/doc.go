// Package sandbox is the service for a partner's tests: everything on loopback, with one client and synthetic users, on a
// database that is gone when it stops; and the driver, api/sandbox.yaml, with which a test is the user, the calendar and
// the bad luck.
//
// What it must be:
//
//   - The service is the real one, put together by package app as `connect-svc serve` does. Users consent by the acts of
//     package oauth, activity is written by package activity, webhooks are sent by package webhook. The clock that the
//     driver moves is the service's own (postgres.Clock), so that everything that ends, ends by it.
//   - A forced answer is written by the edge's own writer, and only one that the contract has for the operation. It stands
//     before the service: the request that gets it is not carried out.
//   - Nothing of this is in a service: `connect-svc serve` and package app do not import this package, and no setting
//     leads here. It listens on loopback alone, since the driver asks for no credentials.
//   - It leaves nothing behind when it is stopped or a part of it fails, and any number of them run side by side.
//
// What a user records depends on the kind, the user's number and the date alone, so that it is the same in each sandbox.
package sandbox
