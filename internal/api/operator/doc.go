// Package operator is the edge for the service's own app, its backend and its support: the operations of api/operator.yaml over the
// domains. Only the private listener has it.
//
// Package contract checks the shape of requests and writes errors. The command line prints the bodies of some operations, too.
//
// # Invariants
//
//   - The operator token is checked before the path: without it, every request gets the same 401. With one for reading alone, every
//     request gets the same 403, unless its method is GET. No GET changes anything.
//   - Who holds the token is the actor of what the request does (package actor).
//   - A secret is in the answer of the operation that makes it, and in no other.
//   - Every list has pages, and an index has its order. A cursor continues the list that it is of, with its filters.
//   - The package logs no path, no query and no body.
package operator
