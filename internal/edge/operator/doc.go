// Package operator is the edge for the service's own app, its backend and its support: the operations of api/operator.yaml over the
// domains. The private listener serves them, and the command line calls them in its own process.
//
// Package contract checks the shape of requests and writes errors.
//
// # Invariants
//
//   - Over HTTP the operator token is checked before the path. Without it, every request gets the same 401. With a read-only token,
//     every request gets the same 403, unless its method is GET. No GET changes anything, but reading the audit log or a user's activity
//     is audited (TestToken, TestNamedTokens, TestListingOfTheLogIsAudited, TestReadUserActivity).
//   - The holder of the token is the actor of the request's changes, see package actor (TestNamedTokens).
//   - A secret is only in the response of the operation that creates it (TestClients, TestWebhooks).
//   - Every list has pages, and an index in its order. A cursor continues only its own list with its own filters (TestPages,
//     TestListsUseIndexes, TestBadCursorsAndQueries).
//   - The package logs no path, no query and no body (TestEvents).
package operator
