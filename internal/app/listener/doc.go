// Package listener accepts connections for an HTTP handler. It bounds them, follows their requests, presents a certificate that is renewed
// while it serves, and stops without losing a request. It knows nothing of the service.
//
// # Invariants
//
//   - The connections of a listener and their requests are bounded, in all and from one network. Idle connections make room for new ones
//     (TestConnections, app.TestFloodFromOneNetwork, connect-svc.TestMemoryOfConnections).
//   - A stop resets no connection that was made before it, on Linux (app.TestStopResetsNobody, TestDrainServesWhatWaits).
//   - A renewed certificate is presented without a restart. One that callers cannot use does not replace one that they can
//     (app.TestCertificateIsRenewed).
//   - A caller that abandons requests waits longer and longer (TestPacedConnection).
package listener
