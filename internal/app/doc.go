// Package app puts the service together: the database pool, the domains, the two listeners and the background work.
// The command line's serve and the demo both start it.
//
// What must always hold:
//
//   - The public listener serves what the specification names and nothing else. Health and everything for the operator
//     are on the private listener.
//   - It starts only on a schema that it knows: a database at another migration than the program's is refused with a
//     word on what to do.
//   - When asked to stop it accepts nothing new, finishes what runs, and is gone within fifteen seconds. Until then
//     readiness says no, so that a load balancer sends nothing more.
//
// It holds no rules: what a request may do is decided by the domains, and how it is answered by the edges.
package app
