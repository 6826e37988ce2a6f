// Package generated makes requests for tests with pgregory.net/rapid. From the routes of a router it makes those that nobody foresaw
// ([Hostile]). From an OpenAPI document it makes requests of each operation, with values
// that its schemas allow and values that they do not, and says of each request whether the document allows it. What is
// written in the document's prose alone, its tests add.
package generated

import "flag"

// Fewer sequences than rapid's hundred go with all other tests. What runs for long says how many with -rapid.checks.
var _ = flag.Set("rapid.checks", "30")
