// Package alerts evaluates the rules of docs/alerts.yaml in this process, on the samples that Prometheus would scrape from it.
// Operators without Prometheus see in the console what would fire, and operators with Prometheus see the same in both.
//
// The condition of each rule is a Go function under the name of its alert. Gauges are compared as they are. For a rate or an increase the
// package counts what each counter has grown by in each interval of the last hour. Prometheus extrapolates from the samples that it has,
// so there an alert may begin or end some scrapes earlier or later.
//
// A test in tools/alerts evaluates the functions and Prometheus' own engine on the same samples. Another one has the Prometheus of Debian
// scrape two servers, and provokes every rule.
//
// # Invariants
//
//   - Conditions of gauges are those of docs/alerts.yaml at every instant, and conditions of counters before and after trouble
//     (TestRulesAreThoseOfPrometheus, TestCountersAgreeWithPrometheus).
//   - An alert ends when its condition ends, or when its gauge disappears (TestFiring).
//   - A counter that is away for a while has not grown by what it had (TestCounterIsAway).
//   - A clock that is set back ends what was, and the rules work on afterwards (TestClock).
//   - A counter has at most as many counts as an hour has intervals (TestCountsAreBounded).
//
// The package never asks the database and never reads a file.
package alerts
