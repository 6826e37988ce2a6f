package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Clock is the time of one pool: the real time plus an offset. The zero value and nil are the real time. A Clock is safe for
// concurrent use. Every connection that is acquired after a change has the new time.
type Clock struct {
	// Changed, if set, is called with each new offset, because a connection does not pass its offset on to the nodes of a cluster.
	// Set it before the clock is used.
	Changed func(offset time.Duration)

	offset atomic.Int64 // nanoseconds
}

// Now returns the real time plus the offset. Its method value is a `now func() time.Time`.
func (c *Clock) Now() time.Time { return time.Now().Add(c.Offset()) }

// Offset returns the difference from the real time. It is negative if the clock is set back.
func (c *Clock) Offset() time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(c.offset.Load())
}

// Set makes the clock differ from the real time by offset, rounded to whole microseconds, the resolution of PostgreSQL.
func (c *Clock) Set(offset time.Duration) {
	c.offset.Store(int64(offset.Round(time.Microsecond)))
	c.changed()
}

// Advance moves the clock forward by d, or back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.offset.Add(int64(d.Round(time.Microsecond)))
	c.changed()
}

func (c *Clock) changed() {
	if c.Changed != nil {
		c.Changed(c.Offset())
	}
}

// clockOffsetKey is the key of a connection's present offset among its custom data.
const clockOffsetKey = "connect.clock_offset"

// prepare gives conn the present offset of the clock. It sends a statement only if conn has another offset.
func (c *Clock) prepare(ctx context.Context, conn *pgx.Conn) (bool, error) {
	want := c.Offset()
	data := conn.PgConn().CustomData()
	if has, _ := data[clockOffsetKey].(time.Duration); has == want {
		return true, nil
	}
	interval := fmt.Sprintf("%d microseconds", want.Microseconds())
	if _, err := conn.Exec(ctx, "select set_config('connect.clock_offset', $1, false)", interval); err != nil {
		return false, fmt.Errorf("database: set the clock: %w", err)
	}
	data[clockOffsetKey] = want
	return true, nil
}
