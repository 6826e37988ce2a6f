// Package usage counts what each client asks: requests by hour, operation and status, how long they took, and how many
// were charged to the client's rate budget in each minute. It also keeps the latest refused requests of each client with their reasons.
//
// # Invariants
//
//   - A request never waits to be counted. Counts are kept in memory and added to the database every few seconds and when
//     the service stops. The rows hold the sum over all servers.
//
//   - Memory is bounded. While the database is down, counts beyond the bound are dropped, and the log says so.
//
//   - Nothing is about a user. A client, an hour, an operation's name and a status are all that is kept, for
//     [Retention].
//
//   - An error has fixed words alone, nothing that a caller sent. Those of whoever named a client without proving to be it
//     are kept apart from the client's own, in memory and in the database, so that nobody pushes out another's.
//
// The counts are estimates and no basis for billing: a server that is killed loses some seconds, and a batch whose result
// is unknown is written again.
package usage
