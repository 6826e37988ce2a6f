// Package fairqueue decides who may use a scarce thing next: a connection of the database, or the row of a connection
// between a user and a client.
//
// Everyone who asks is somebody: a partner, the pages, the operator, the service's own background work. [WithCaller]
// says who, and [Within] until when. A [Queue] has a line for each caller and serves the lines in turn, so that one who
// asks for much waits behind itself only. It is work-conserving: a caller who is alone may have every place.
// [Locks] lets one at a time act on a row, and the others wait here, where that costs no connection of the database.
//
// What must always hold:
//
//   - between two turns of one waiting caller every other waiting caller has at most one;
//   - a place that is free while somebody waits is handed over at once;
//   - lines are bounded: beyond the bound the answer is [ErrFull] at once, so that nobody waits for what cannot come in
//     time;
//   - the context of a request ends with its time alone. That its caller has gone away never reaches the database, where
//     pgx would close the connection.
package fairqueue
