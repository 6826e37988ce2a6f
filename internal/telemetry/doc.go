// Package telemetry is how the service tells its operator what it does: structured logs, one event for each request,
// the metrics that are counted
// from it, and traces.
//
// What must always hold: no line that leaves this package holds a credential. Every string, error and value that is
// logged passes through [credential.Redact], whichever attribute, group or message it stands in. An event names the
// operation and never the path, the query, a header or a network address, because paths hold grant ids and queries
// hold codes.
//
// What it never does: decide anything. An edge (internal/api/partner, internal/web/pages) answers the request, and writes
// what the operator should know into the request's [Event].
package telemetry
