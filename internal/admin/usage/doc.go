// Package usage counts the requests of each client by hour, operation and status, their durations, and how many were charged to the
// client's rate budget in each minute. It counts what happens on each day, to each client and in all. It also keeps the latest refused requests of
// each client with their reasons.
//
// # Invariants
//
//   - Counting never waits for the database. Counts are kept in memory and added to the database every few seconds and when
//     the service stops (TestRunWritesWhatIsLeft).
//
//   - The rows hold the sum over all servers (TestManyServersAtOnce).
//
//   - Memory is bounded. While the database is down, counts beyond the bound are dropped, and the log says so
//     (TestCountsWaitWithinBounds).
//
//   - Counts are kept for [Retention] (TestSweep). They name a client, an operation, a status and an hour, or a client and a minute,
//     and never a user (TestServersAddUp, users.TestDeletedUserLeavesNothing).
//
//   - The figures of a day are what a count of all tables gives, by client and in all (TestDaysAreAFullCount). Several servers count and
//     fold at once (TestDaysOfManyServers), and a fold that fails leaves nothing (TestDaysWait). They are kept for [DaysKept]
//     (TestDaysOfThePast).
//
//   - An error consists of fixed words, and nothing that a caller sent (TestErrorsOfAClient).
//
//   - Errors of unauthenticated requests that named a client are kept apart from the client's own, in memory and in the database, so
//     that strangers displace no error of a client (TestErrorsOfANetwork).
//
// The counts are estimates and must not be used for billing: a server that is killed loses some seconds, and a batch whose outcome
// is unknown is written again.
package usage
