// Package alerts evaluates the rules of docs/alerts.yaml in this process, on the samples that Prometheus would scrape from it.
// Operators without Prometheus see in the console what would fire, and operators with Prometheus see the same in both.
//
// The condition of each rule is a Go function under the name of its alert. A test in tools/alerts evaluates the functions and
// Prometheus' own engine on the same samples and compares every alert at every instant. Another one has the Prometheus of Debian scrape
// two servers, and provokes every rule.
//
// # Invariants
//
//   - Conditions are those of docs/alerts.yaml (TestRulesAreThoseOfPrometheus).
//   - A condition that is no longer met, or a series that has ended, ends its alert (TestFiring).
//   - A clock that is set back ends what was, and the rules work on afterwards (TestClock).
//   - The history holds at most [maxSamples] samples, and only of metrics that a rule reads (TestHistoryIsBounded).
//
// The package never asks the database and never reads a file.
package alerts
