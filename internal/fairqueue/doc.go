// Package fairqueue decides who may use something scarce next: a connection of the database, or the row of a connection
// between a user and a client.
//
// Everyone who asks is a caller of some kind: a partner, a user, a stranger's network, the operator, or the service's own
// background work. [WithCaller] names the caller, and [Within] also sets a deadline. A [Queue] has a line for each caller. The
// kinds have turns, and the lines of a kind have turns among themselves, so that a caller that asks for much waits behind itself,
// and any number of strangers behind one another. It is work-conserving: a caller that is alone may have every place. [Locks] lets
// one at a time act on a row; the others wait here, without a connection of the database. A [Batch] answers the questions of
// callers who have not proved yet who they are, together.
//
// # Invariants
//
//   - Between two turns of one kind in which somebody waits, every other such kind has at most one turn. The same holds for the
//     callers of one kind.
//   - A place that is free while somebody waits is handed over at once.
//   - A line is bounded by the time of those who wait in it. They leave with [ErrLate] while there is still time to answer. A
//     queue may also bound the length of its lines; beyond that [ErrFull] is returned at once.
//   - The context of a request ends with its deadline alone. A caller that goes away does not cancel it, because pgx would close
//     the database connection.
package fairqueue
