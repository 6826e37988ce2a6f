// Package operator is the edge for the service's own app and its backend: the operations of api/operator.yaml over the
// domains. It is mounted on the private listener alone.
//
// Shapes, bodies and errors are package strictapi's. Before a path is looked at, authenticate wants the operator token:
// who has none learns nothing else.
//
// What it never does: speak to the database, keep the operator token, or log a path or a body.
package operator
