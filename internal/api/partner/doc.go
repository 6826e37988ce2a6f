// Package partner is the edge for the backends of partners: the seven operations of api/openapi.yaml over the domains.
//
// A request goes through these hands:
//
//	headers    the three cache and referrer headers on every answer, X-Request-ID on reads
//	recovered  a panic ends in an opaque error
//	chi        path and method, or 404
//	guard      everything that is checked before the operation itself, in the order of decisions, section 2;
//	           what an operation takes, needs and allows is read from the embedded document
//	generated  binds the parameters
//	handlers   one method an operation: asks a domain, builds the answer
//
// What must always hold: every error, whoever found it, ends in [edge.fail], which looks it up in the table of its
// path and writes code and text from there. What the table does not know is an opaque server_error or
// data_unavailable outside, and the cause in the request's one log event inside. The lease of a read ends before its
// answer is written, so that a client that waits for its answers never holds more leases than it has requests open.
//
// What it never does: speak to the database, decide what a credential may do, or log a path, a query or a body.
package partner
