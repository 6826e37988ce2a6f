// Package app puts the service together: the database pool, the domains, the two listeners and the background work.
// The command line's serve, the demo and the sandbox start it.
//
// # Invariants
//
//   - The public listener serves what the specification names and nothing else. Health and everything for the operator
//     are on the private listener.
//   - It starts only on a schema that it can work on. Any other is refused, and the error says what to do.
//   - When asked to stop, it accepts nothing new, finishes running requests, and ends within fifteen seconds. Until then
//     readiness says no, so that a load balancer sends nothing more.
//
// It holds no rules: the domains decide what a request may do, and the edges how to respond.
package app
