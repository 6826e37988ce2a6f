// Package servers knows which servers work on the database, which alerts fire on each, whether the database's clock is right, and how large
// the database is and was. It owns the tables servers, sweeps and database_sizes.
//
// # Invariants
//
//   - A server that stops removes its row. A server that was killed is listed as lost for a day (TestServers).
//   - The list is bounded, and keeps the servers that were seen last (TestManyWereKilled).
//   - The database's clock is believed only if it ran evenly and most clocks agree with it (TestJudge).
//   - Servers that run limit rates in one store (TestOneLimiter).
//   - The size of the database is recorded once a day and kept for 400 days (TestDatabase).
//
// A server whose row cannot be written serves as before. The rows hold no credential, no
// address and nothing about a user.
package servers
