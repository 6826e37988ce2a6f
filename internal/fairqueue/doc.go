// Package fairqueue decides who may use something scarce next: a connection of the database, or the row of a connection
// between a user and a client.
//
// Everyone who asks is a caller: a partner, the pages, the operator, or the service's own background work. [WithCaller] names the
// caller, and [Within] also sets a deadline. A [Queue] has a line for each caller and serves the lines in turn, so that a caller
// that asks for much waits behind itself. It is work-conserving: a caller that is alone may have every place. [Locks] lets one at
// a time act on a row; the others wait here, without a connection of the database.
//
// # Invariants
//
//   - Between two turns of one waiting caller, every other waiting caller has at most one turn.
//   - A place that is free while somebody waits is handed over at once.
//   - A line is bounded. Beyond its bound [ErrFull] is returned at once, so that nobody waits for what cannot come in time.
//   - The context of a request ends with its deadline alone. A caller that goes away does not cancel it, because pgx would close
//     the database connection.
package fairqueue
