// Package work has what every piece of work needs, whoever it is done for: who asks ([Caller], [Actor]), how long it may take ([Limits],
// [Within]), when its turn is ([Queue], [Locks], [Batch]), and what happens if it panics ([Try], [Restart]).
//
// A queue decides who uses something scarce next: a database connection, or the row of a connection between a user and a client. Everyone who
// asks is a caller of some kind: a partner, a user, a stranger's network, the operator, or the background work of the service. [WithCaller]
// names the caller, and [Within] also sets a deadline. A [Queue] serves the kinds in rotation, and the callers of each kind in rotation. A caller
// that asks for much therefore waits behind itself, and any number of strangers wait behind one another. A caller that is alone may use every place
// of a queue. [Locks] lets one caller at a time act on a row; the others wait here, without a database connection. A [Batch] answers the
// questions of callers who have not yet proved who they are.
//
// No setting changes the limits of time: the service runs with [DefaultLimits]. Tests replace them, because on a busy machine every limit is
// exceeded at some time. Durations that change no answer, such as polling intervals, are constants where they are used: [Pause] and [Every] wait
// for them.
//
// # Invariants
//
//   - While somebody of two kinds waits, no kind is served twice before the other is served once. The same holds for the callers
//     of one kind (TestQueueServesKindsInTurn).
//   - A place that comes free is handed to one that waits, and no place is lost (TestQueueProperties).
//   - A wait is bounded by time: it ends with [ErrLate] while there is still time to answer (TestQueueIsBoundedByTime). A queue
//     may also bound how many wait for one caller, and refuses more with [ErrFull] (TestQueueIsBoundedForEachCaller).
//   - Work that panics ends nothing but itself. The error has the stack, without the values of arguments, which may be secrets (TestTry). Background
//     work that panics goes on after a pause, until its context ends (TestRestart).
//   - The context of a request ends with its deadline only. A caller that goes away does not cancel it, because pgx would close
//     the database connection (TestQueueLosesNoPlace).
package work
