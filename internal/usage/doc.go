// Package usage counts what each client asks: requests by minute, operation and status, how long they took, and how
// much of the client's rate budget they cost.
//
// What must always hold:
//
//   - A request never waits for its counting. Counts are kept in memory and added to the database every few seconds and
//     when the service stops; the servers' counts add up.
//   - Memory is bounded: what is beyond the bound while the database is away is dropped, and the log says so.
//   - Nothing is about a user. A client, a minute, an operation's name and a status are all that is kept, for
//     [Retention].
//
// The counts are for looking at, not for billing: a server that is killed loses some seconds, and a batch whose outcome
// nobody learned is added once more.
package usage
