// Package operator is the edge for the service's own app, its backend and its support: the operations of api/operator.yaml over the
// domains. The private listener serves them, and the command line calls them in its own process.
//
// Package contract checks the shape of requests and writes errors.
//
// # Invariants
//
//   - Over HTTP the operator token is checked before the path: without it, every request gets the same 401. With a read-only one,
//     every request gets the same 403, unless its method is GET. No GET changes anything, but a listing of the audit log is audited
//     (TestToken, TestNamedTokens, TestListingOfTheLogIsAudited).
//   - The holder of the token is the actor of the request's changes, see package actor (TestNamedTokens).
//   - A secret is in the answer of the operation that makes it, and in no other (TestClients, TestWebhooks).
//   - Every list has pages, and an index has its order. A cursor continues the list that it is of, with its filters (TestPages,
//     TestListsUseIndexes, TestBadCursorsAndQueries).
//   - The package logs no path, no query and no body (TestEvents).
package operator
