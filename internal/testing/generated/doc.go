// Package generated makes requests for tests with pgregory.net/rapid. From the routes of a router it makes unforeseen requests
// ([Hostile]). From an OpenAPI document it makes requests of each operation, with values that its schemas allow and values that
// they do not, and says of each request whether the document allows it. Tests add the rules that stand in the document's prose
// alone.
package generated

import "flag"

// Fewer sequences than rapid's hundred go with all other tests. A long run sets their number with -rapid.checks.
var _ = flag.Set("rapid.checks", "30")
