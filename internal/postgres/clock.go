package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Clock is the time of one pool: the real time plus an offset. The zero value is the real time, and so is nil. It is
// safe for concurrent use; a change is seen by every connection that is acquired afterwards.
type Clock struct {
	// Changed, unless nil, is called with each new offset: the nodes of a cluster do not hear what a connection is given.
	// Set it before the clock is used.
	Changed func(offset time.Duration)

	offset atomic.Int64 // nanoseconds
}

// Now is the real time plus the offset. Pass the method value where a `now func() time.Time` is asked for.
func (c *Clock) Now() time.Time { return time.Now().Add(c.Offset()) }

// Offset is by how much the clock differs from the real time; below zero it is set back.
func (c *Clock) Offset() time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(c.offset.Load())
}

// Set makes the clock differ from the real time by offset, rounded to whole microseconds, which is what PostgreSQL
// can hold.
func (c *Clock) Set(offset time.Duration) {
	c.offset.Store(int64(offset.Round(time.Microsecond)))
	c.changed()
}

// Advance moves the clock forward by d, or back when d is below zero.
func (c *Clock) Advance(d time.Duration) {
	c.offset.Add(int64(d.Round(time.Microsecond)))
	c.changed()
}

func (c *Clock) changed() {
	if c.Changed != nil {
		c.Changed(c.Offset())
	}
}

// clockOffsetKey is where a connection remembers the offset that it was last given.
const clockOffsetKey = "connect.clock_offset"

// prepare gives conn the clock's present offset. Only a connection that has another one is asked to change it.
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
