package usage

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/postgres"
)

// Connections counts connections by state (decisions, section 4).
type Connections struct {
	Authorized, Lapsed, Revoked, Disconnected int64
	Precision                                 Precision
	At                                        time.Time // of Estimated: when they were counted
}

// Precision of a count of connections. A client can have as many connections as the service has users, and a report must not read
// them all.
type Precision int

// The precisions of a count.
const (
	Exact     Precision = iota
	Estimated           // as of the last fold
	AtLeast             // a lower bound: too many to count, and no fold has counted them yet
	Unknown             // counting took too long
)

// String returns the name of the precision in JSON.
func (p Precision) String() string {
	return [...]string{"exact", "estimated", "at_least", "unknown"}[p]
}

// Sum returns the number of connections in all states.
func (c Connections) Sum() int64 { return c.Authorized + c.Lapsed + c.Revoked + c.Disconnected }

// Connections counts a client's present connections by state. If there are many, it returns those that the last fold has counted. An
// unknown client has none.
func (u *Usage) Connections(ctx context.Context, clientID uuid.UUID) (Connections, error) {
	folded, err := u.folded(ctx, clientID)
	if err != nil || folded.Sum() > u.exact {
		return folded, postgres.Wrap("usage: connections", err)
	}
	limited, cancel := context.WithTimeout(ctx, u.countTimeout)
	defer cancel()
	rows, err := u.queries.CountClientStates(limited, usagedb.CountClientStatesParams{
		ClientID: clientID, AtMost: int32(u.exact + 1), //nolint:gosec // a constant
	})
	var counted Connections
	for _, row := range rows {
		switch row.State {
		case "authorized":
			counted.Authorized = row.Connections
		case "lapsed":
			counted.Lapsed = row.Connections
		case "revoked":
			counted.Revoked = row.Connections
		case "disconnected":
			counted.Disconnected = row.Connections
		}
	}
	switch {
	case postgres.Is(err, postgres.QueryCanceled) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		if folded.Sum() > 0 {
			return folded, nil
		}
		return Connections{Precision: Unknown}, nil
	case counted.Sum() > u.exact:
		counted.Precision = AtLeast
	}
	return counted, postgres.Wrap("usage: connections", err)
}

// folded returns the connections of a client as of the last fold; none if none was counted.
func (u *Usage) folded(ctx context.Context, clientID uuid.UUID) (Connections, error) {
	at, err := u.queries.CountedUntil(ctx)
	if err != nil {
		return Connections{}, err
	}
	day := at.UTC().Truncate(oneDay)
	rows, err := u.queries.ReadDays(ctx, usagedb.ReadDaysParams{ClientIds: []uuid.UUID{clientID}, Since: day})
	counted := daysOf(rows).of(clientID, day).Connections()
	counted.At = at
	return counted, err
}

// Connections returns the connections when they were last counted on the day.
func (d Day) Connections() Connections {
	return Connections{
		Authorized: d.NowAuthorized, Lapsed: d.NowLapsed, Revoked: d.NowRevoked, Disconnected: d.NowDisconnected, Precision: Estimated,
	}
}
