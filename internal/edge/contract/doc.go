// Package contract reads the documents of the JSON edges, validates requests against them, and writes the errors of all edges.
//
// [Read], [ReadBody], [Failures] and [Recovered] are for every edge. [API] is the edge of the operator API and of the sandbox's driver,
// whose bodies are JSON and whose errors are problem details (RFC 9457). A request passes
//
//	headers     Cache-Control and X-Request-ID of every response
//	Recovered   turns a panic into an opaque error
//	middleware  the edge's own, such as authentication
//	chi         path and method, or 404
//	guard       validates the request's shape and body against the embedded document
//	generated   binds parameters and body
//
// # Invariants
//
//   - Every error of a request is written by [Failures.Write], which looks it up in a table of the edge. An error that is not in the table
//     is opaque to the caller, and is the cause in the request's one log event (partner.TestFaults_7, operator.TestEvents).
//   - An error of a field names its place and the accepted values, never the value (operator.TestInvalidActivity,
//     operator.TestInvalidUser).
package contract
