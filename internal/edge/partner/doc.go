// Package partner is the edge for partners' backends: the seven operations of api/openapi.yaml over the domains.
//
// A request passes
//
//	headers     the cache and referrer headers and the X-Request-ID of every response
//	Recovered   turns a panic into an opaque error
//	chi         path and method, or 404
//	guard       all checks before the operation itself, in the order of decisions, section 2, by the embedded document
//	generated   binds the parameters
//	handlers    one method for each operation: calls a domain, builds the response
//
// # Invariants
//
//   - Every error of a request ends in [edge.fail]. One of two tables has its status, code and text: one for reads, one for the rest. The
//     sandbox forces errors of the same tables by [Fail]. An error that is not in the table is an opaque server_error or
//     data_unavailable, and is the cause in the request's log event (TestFaults_7).
//   - The lease of a read is released before its response is written, so a client that waits for its responses never holds more leases
//     than it has open requests (TestConcurrency_8).
//   - The package never queries the database, never decides what a credential may do, and never logs a path, a query or a body
//     (TestEvents).
package partner
