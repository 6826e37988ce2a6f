// Package partner is the edge for the backends of partners: the seven operations of api/openapi.yaml over the domains.
//
// A request passes
//
//	headers     the three cache and referrer headers of every response, X-Request-ID of reads
//	Recovered   turns a panic into an opaque error
//	chi         path and method, or 404
//	guard       all checks before the operation itself, in the order of decisions, section 2; the embedded document says what
//	            an operation takes, needs and allows
//	generated   binds the parameters
//	handlers    one method an operation: asks a domain, builds the response
//
// # Invariants
//
//   - Every error of a request ends in [edge.fail]. One of two tables has its status, code and text: one for reads, one for the rest.
//     The sandbox forces errors of the same tables by [Fail]. An error that the table does not have is an opaque server_error or
//     data_unavailable, and the cause in the request's log event (TestFaults_7).
//   - The lease of a read is released before its response is written. So a client that waits for its responses never holds more
//     leases than it has requests open (TestConcurrency_8).
//   - The package never asks the database, never decides what a credential may do, and never logs a path, a query or a body
//     (TestEvents).
package partner
