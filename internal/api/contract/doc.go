// Package contract holds the JSON edges to their documents: it reads a document, checks requests against it to the letter,
// and writes the errors of all edges.
//
// [Read], [ReadBody], [Failures] and [Recovered] are for every edge. [API] is the edge of the operator API and of the
// sandbox's driver, whose bodies are JSON and whose errors are problem details. A request goes through these hands there:
//
//	headers    Cache-Control and X-Request-ID on every answer
//	recovered  a panic ends in an opaque error
//	the edge's own, such as authentication
//	chi        path and method, or 404
//	guard      the shape of the request and its body, held against the embedded document
//	generated  binds parameters and body
//
// What must always hold: every error ends in [Failures.Write], which looks it up in the edge's one table and writes
// it from there. What the table does not know is an opaque server-error outside, and the cause in the request's
// one log event inside. An error of a field names its place and what is accepted there, never the value.
package contract
