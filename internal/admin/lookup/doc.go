// Package lookup tells what an id, an address or a name belongs to, so that one search box and one command lead to everything that an
// operator may have in hand. Its statements read the tables of all domains, and write nothing.
//
// # Invariants
//
//   - A text finds what it names, whatever its kind, and nothing else (TestFind).
//   - Each look-up reads one index, however much is stored, except a client's name (operator.TestListsUseIndexes).
//
// The package never logs a text: it may be an address.
package lookup
