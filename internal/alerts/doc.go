// Package alerts evaluates alerting rules in this process, with Prometheus' own engine, on what this process would tell
// Prometheus. So an operator without a Prometheus sees what would fire, and one with it sees the same.
//
// # Invariants
//
//   - The rules are the file that Prometheus is given. Whatever its engine cannot parse is an error at the start.
//   - A series is kept only if a rule asks for it, and no longer than the rule looks back. What is kept in all is bounded by
//     [maxSamples]: four megabytes of samples, and about as much again for the names of their series.
//   - It needs nothing but the process: no database, no file, no network.
package alerts
