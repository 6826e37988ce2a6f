// Package strictapi is what the operator API and the sandbox's driver share: an edge whose bodies are JSON, held to its
// document to the letter, and whose errors are problem details.
//
// A request goes through these hands:
//
//	headers    Cache-Control and X-Request-ID on every answer
//	recovered  a panic ends in an opaque error
//	the edge's own, such as authentication
//	chi        path and method, or 404
//	guard      the shape of the request and its body, held against the embedded document
//	generated  binds parameters and body
//
// What must always hold: every error ends in [API.Fail], which looks it up in one table and writes problem details
// (RFC 9457) from there. What the table does not know is an opaque server-error outside, and the cause in the request's
// one log event inside. An error of a field names its place and what is accepted there, never the value.
package strictapi
