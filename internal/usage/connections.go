package usage

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/postgres"
)

// Connections counts connections by state (decisions, section 4).
type Connections struct {
	Authorized, Lapsed, Revoked, Disconnected int64
	Precision                                 Precision
}

// Precision of a count of connections. A client can have as many connections as the service has users, and a report must not read
// them all.
type Precision int

// The precisions of a count.
const (
	Exact     Precision = iota
	Estimated           // from a sample of the table
	AtLeast             // a lower bound: too many to count, and too few in the sample or no time for one
	Unknown             // counting took too long
)

// String returns the name of the precision in JSON.
func (p Precision) String() string {
	return [...]string{"exact", "estimated", "at_least", "unknown"}[p]
}

// countBounds limit the cost of counting connections.
type countBounds struct {
	timeout time.Duration // of counting, and again of sampling
	exact   int64         // up to so many connections of a client are counted exactly
	sample  int64         // about so many connections of all clients are read for an estimate
}

// minSample is the number of a client's connections that a sample needs to be used: with 100 the standard error of the estimate is
// about a tenth.
const minSample = 100

// Sum returns the number of connections in all states.
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

// scaled returns the estimate from a sample, rounded to its significant digits.
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

// Connections counts a client's present connections by state. An unknown client has none.
func (u *Usage) Connections(ctx context.Context, clientID uuid.UUID) (Connections, error) {
	counted, err := u.countConnections(ctx, []uuid.UUID{clientID}, u.bounds)
	return counted[clientID], postgres.Wrap("usage: connections", err)
}

// countConnections counts the connections of clients within bounds. If that takes too long, all counts are Unknown.
func (u *Usage) countConnections(ctx context.Context, clients []uuid.UUID, bounds countBounds) (map[uuid.UUID]Connections, error) {
	counted, err := u.countByState(ctx, clients, bounds)
	if postgres.Is(err, postgres.QueryCanceled) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		for _, id := range clients {
			one := counted[id]
			one.Precision = Unknown
			counted[id] = one
		}
		err = nil
	}
	return counted, err
}

// countByState counts the connections of clients in bounded time: exactly for a client with few, by a sample of the table for
// a client with many. Clients without connections are not in the map.
func (u *Usage) countByState(ctx context.Context, clients []uuid.UUID, bounds countBounds) (map[uuid.UUID]Connections, error) {
	params := postgres.Map(clients, func(id uuid.UUID) usagedb.CountConnectionStatesParams {
		return usagedb.CountConnectionStatesParams{ClientID: id, AtMost: int32(bounds.exact + 1)} //nolint:gosec // a constant
	})
	limited, cancel := context.WithTimeout(ctx, bounds.timeout)
	defer cancel()
	found := map[uuid.UUID]Connections{}
	many := false
	var failures []error
	u.queries.CountConnectionStates(limited, params).Query(func(i int, rows []usagedb.CountConnectionStatesRow, err error) {
		failures = append(failures, err)
		for _, row := range rows {
			c := found[clients[i]]
			c.add(row.State, row.Connections)
			if c.Sum() > bounds.exact {
				c.Precision, many = AtLeast, true
			}
			found[clients[i]] = c
		}
	})
	if err := errors.Join(failures...); err != nil || !many {
		return found, err
	}
	limited, cancel = context.WithTimeout(ctx, bounds.timeout)
	defer cancel()
	if err := u.sample(limited, found, bounds.sample); limited.Err() == nil { // otherwise the lower bounds stay
		return found, err
	}
	return found, ctx.Err()
}

// sample replaces lower bounds by estimates. The size of the table need not be known: samples grow until one is large enough to tell
// which part of the pages has about size connections.
func (u *Usage) sample(ctx context.Context, found map[uuid.UUID]Connections, size int64) error {
	for part := 1e-4; ; {
		sampled, err := u.queries.SampleConnections(ctx, float32(100*part))
		if err != nil {
			return err
		}
		estimates := map[uuid.UUID]Connections{}
		var total int64
		for _, row := range sampled {
			c := estimates[row.ClientID]
			c.add(row.State, row.Connections)
			estimates[row.ClientID] = c
			total += row.Connections
		}
		if next := min(1, part*min(10, float64(size)/float64(max(total, 1)))); next > 1.5*part {
			part = next
			continue
		}
		for client, c := range found {
			if estimate := estimates[client]; c.Precision == AtLeast && estimate.Sum() >= minSample {
				found[client] = estimate.scaled(1 / part)
			}
		}
		return nil
	}
}
