// Package edgetest has what the tests of the edges (the partner API, the operator API, the user's pages and the console) have in
// common: the domains on a database of the test's own, a user who connects with a partner as browser and backend do, operators'
// tokens, one request of an API with its answer, the mistakes of an integration, and a browser without a screen.
//
// Each edge has its own fixture around it, with its own configuration. The package knows no edge.
package edgetest
