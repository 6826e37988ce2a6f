// Package sandbox runs the service for a partner's tests: everything on loopback, with clients and synthetic users, on
// a database that is deleted when it stops. A test uses the driver, api/sandbox.yaml, to act as the user, to move the clock
// and to force errors.
//
// The service is the real one, put together by package app as for `connect-svc serve`. Users consent through package oauth, package
// activity writes activity, and package webhook sends webhooks. The driver moves the service's own clock (postgres.Clock), so that
// every expiry follows it. `connect-svc serve` cannot do this: neither it nor package app imports this package, and no setting
// turns it on.
//
// # Invariants
//
//   - A forced answer is one that the contract has for the operation, and the partner edge writes it. The request that gets it does not
//     reach the service (TestPartner).
//   - Nobody has the key of the certificate authority that tests trust (authority.TestOnce).
//   - A webhook without TLS goes to this machine only (TestCheckReceiver, TestPlainTransportStaysHere).
//   - The sandbox listens on loopback only, unless the driver requires a token (connect-svc.TestSandboxRefusals).
//   - A sandbox leaves nothing behind after it is stopped or a part of it fails. Any number of them run side by side (TestSideBySide).
//   - With a seed and a time, ids, secrets, data and clock are the same each time (TestSeedRepeats).
//   - The records of a user depend only on the kind, the user's number and the date, so that they are the same in each sandbox
//     (TestRecords).
package sandbox
