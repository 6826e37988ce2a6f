// Package history decides whether what the callers of one connection saw can be explained: whether there is one order of all
// acts, each at one instant between its call and its answer, in which every answer is the one that the rules give
// (specification 3.1, 3.2). That is linearizability, and porcupine looks for the order. The rules are stated here a second
// time, in their plainest form. It is for tests only.
//
// # Outcomes that nobody knows
//
// A request without an answer, or answered 500 or 503, may have happened or not, and may happen later. Its act has no end:
// an order that has it after everything else says that it never happened.
//
// # The end
//
// [Look] is the last act: what the database and its audit log have of the connection, and which events its partner was told. A change
// of state that is not told or audited, is so twice, or was told or audited and never happened has no order either.
package history
