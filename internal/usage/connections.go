package usage

import (
	"math"
	"time"

	"connect-svc/internal/timelimit"
)

// Connections are counted by their state (decisions, section 4).
type Connections struct {
	Authorized, Lapsed, Revoked, Disconnected int64
	Precision                                 Precision
}

// Precision says how exact a count of connections is. A client can have as many connections as the service has users, and
// a report must not read them all.
type Precision int

// The precisions of a count.
const (
	Exact     Precision = iota
	Estimated           // from a sample of the table
	AtLeast             // a lower bound: too many to count, and too few in the sample or no time for one
	Unknown             // not counted in time
)

// String is the name of the precision in JSON.
func (p Precision) String() string {
	return [...]string{"exact", "estimated", "at_least", "unknown"}[p]
}

// countBounds limit what counting connections costs.
type countBounds struct {
	timeout time.Duration // of counting, and of sampling
	exact   int64         // connections of a client that are counted exactly
	sample  int64         // connections of all clients that are read for an estimate, about
}

// clientBounds are those of a report.
func clientBounds(limits timelimit.Limits) countBounds {
	return countBounds{timeout: limits.Count, exact: 10_000, sample: 30_000}
}

// overviewBounds are those of a page that shows all clients.
func overviewBounds(limits timelimit.Limits) countBounds {
	return countBounds{timeout: limits.Count / 2, exact: 1000, sample: 10_000}
}

// minSample is how many connections of a client a sample must contain to be used: with 100 the standard error of the
// estimate is about a tenth.
const minSample = 100

// Sum is the number of connections in every state.
func (c Connections) Sum() int64 { return c.Authorized + c.Lapsed + c.Revoked + c.Disconnected }

func (c *Connections) add(state string, n int64) {
	switch state {
	case "authorized":
		c.Authorized += n
	case "lapsed":
		c.Lapsed += n
	case "revoked":
		c.Revoked += n
	case "disconnected":
		c.Disconnected += n
	}
}

// scaled is the estimate from a sample, rounded to the digits that are significant.
func (c Connections) scaled(factor float64) Connections {
	scale := func(n int64) int64 { return twoDigits(float64(n) * factor) }
	return Connections{scale(c.Authorized), scale(c.Lapsed), scale(c.Revoked), scale(c.Disconnected), Estimated}
}

// twoDigits rounds to two significant digits.
func twoDigits(n float64) int64 {
	if n < 100 {
		return int64(math.Round(n))
	}
	unit := math.Pow(10, math.Floor(math.Log10(n))-1)
	return int64(math.Round(n/unit) * unit)
}
