// Package release holds `make release` to its promises: it makes a release only of a commit that is one, and the same bytes from two
// clones. `make test-long` runs the second test, which builds the program for six platforms.
package release
