// Package operator is the edge for the service's own app and its backend: the operations of api/operator.yaml over the
// domains. It is mounted on the private listener alone.
//
// A request goes through these hands:
//
//	headers       Cache-Control and X-Request-ID on every answer
//	recovered     a panic ends in an opaque error
//	authenticate  the operator token, or 401: who has none learns nothing else
//	chi           path and method, or 404
//	guard         the shape of the request and its body, held against the embedded document
//	generated     binds parameters and body
//	handlers      one method an operation: asks a domain, builds the answer
//
// What must always hold: every error ends in [edge.fail], which looks it up in one table and writes problem details
// (RFC 9457) from there. What the table does not know is an opaque server-error outside, and the cause in the request's
// one log event inside. An error of a field names its place and what is accepted there, never the value.
//
// What it never does: speak to the database, keep the operator token, or log a path or a body.
package operator
