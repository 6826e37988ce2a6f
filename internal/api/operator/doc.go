// Package operator is the edge for the service's own app and its backend: the operations of api/operator.yaml over the
// domains. Only the private listener has it.
//
// Package contract checks the shape of requests and writes errors.
//
// # Invariants
//
//   - The operator token is checked before the path: without it, every request gets the same 401.
//   - The package keeps the hash of the operator token, never the token. It logs no path and no body.
package operator
