// Package telemetry tells the operator what the service does: structured logs with one event for each request, the metrics
// that are counted from these events, and traces.
//
// # Invariants
//
//   - No line of a log contains a credential. Every string, error and value passes through [credential.Redact], in
//     whichever attribute, group or message it is.
//   - An event names the operation, and never the path, the query, a header or a network address: paths contain grant ids,
//     and queries contain codes.
//
// The package decides nothing. An edge (internal/api/partner, internal/web/pages) responds to the request, and records in
// the request's [Event] what the operator should know.
package telemetry
