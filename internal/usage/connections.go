package usage

import (
	"math"
	"time"
)

// Connections are counted by their state (decisions, section 4).
type Connections struct {
	Authorized, Lapsed, Revoked, Disconnected int64
	Precision                                 Precision
}

// Precision says what a count of connections means. A client can have as many as the service has users, and a report
// must not read them all.
type Precision int

// The precisions of a count.
const (
	Exact     Precision = iota
	Estimated           // from a sample of the table
	AtLeast             // too many to count one by one, and too few in the sample, or no time for it
	Unknown             // not counted in time
)

// String is the name of the precision for programs.
func (p Precision) String() string {
	return [...]string{"exact", "estimated", "at_least", "unknown"}[p]
}

// countBounds bound the counting.
type countBounds struct {
	limit    time.Duration // for each of two statements
	oneByOne int64         // connections of a client that are read one by one
	sample   int64         // connections of all clients that are read for an estimate
}

var defaultCountBounds = countBounds{limit: 2 * time.Second, oneByOne: 10_000, sample: 30_000}

// sampleEnough is how many connections of a client a sample must hold to be believed: with 100 the standard error of the
// estimate is about a tenth.
const sampleEnough = 100

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

// scaled is the estimate that a sample gives, rounded to what it can know.
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
