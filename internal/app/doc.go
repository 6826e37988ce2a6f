// Package app puts the service together: the database pool, the domains, the two listeners and the background work.
// The command line's serve, the demo and the sandbox start it.
//
// # Invariants
//
//   - The public listener has neither health nor anything for the operator. The listener for load balancers has only health
//     (TestConsoleIsPrivate, TestOperatorAPIIsPrivate, connect-svc.TestServePrivateTLS).
//   - It starts only on a schema that it works on; otherwise the error says what to do (connect-svc.TestServeOnANewerSchema).
//   - After it was asked to stop, /readyz is 503, so that load balancers send nothing more. It serves everything for the drain delay.
//     Then it accepts nothing new, finishes running requests, and ends within fifteen seconds (TestDrain,
//     TestStopBreaksOffWhatDoesNotEnd).
//   - A stop resets no connection that was made before it, on Linux (TestStopResetsNobody, listener.TestDrainServesWhatWaits).
//   - The connections of a listener and their requests are bounded, in all and from one network. Idle connections make room for new
//     ones (listener.TestConnections, TestFloodFromOneNetwork, connect-svc.TestMemoryOfConnections).
//   - Background work that panics is logged and goes on (TestSweepThatPanics).
//   - One of the servers that are up sweeps (TestOneServerSweeps), however long a sweep takes (TestSweepThatTakesLong).
//
// It has no rules: the domains decide what a request may do, and the edges how to respond.
package app
