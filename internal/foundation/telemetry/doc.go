// Package telemetry shows operators what the service does: structured logs with one event per request, metrics that are counted from
// these events, and traces.
//
// # Invariants
//
//   - No log line contains a credential. Every line passes through [credential.Redact] (TestLoggerRedacts).
//   - An event names the operation. It never contains the path, the query, a header or a network address, because paths contain
//     grant ids and queries contain codes (TestOneEventForEachRequest).
//
// The package makes no decisions. An edge (internal/edge/partner, internal/edge/pages) answers the request and records in its [Event]
// what the operator should know.
package telemetry
