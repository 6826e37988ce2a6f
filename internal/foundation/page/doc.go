// Package page splits lists into pages, for the operator API and the console alike.
//
// A list is ordered by the [Key] of its rows. [Read] asks a domain for the rows after a key and returns them with a cursor,
// which names the list, its filters and the key of the last row.
//
// # Invariants
//
//   - A cursor continues the list that it was made for, with the same filters, and no other (TestCursors).
//   - A cursor grants nothing. It is neither sealed nor stored, and it does not expire (TestCursors).
package page
