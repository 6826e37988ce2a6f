// Package clock knows the time of the service, which is the clock of the database.
//
// # Invariants
//
//   - SQL reads the time through connect_now(), never through now(). A [Clock] shifts it for the connections of one pool, and gives the same
//     time to Go code, so that tests and the demo can travel in time. The zero Clock is the real time (postgres.TestZeroClockSetsNothing).
//   - A statement that must not go by a clock that jumped has an argument @expected: the time that the clock should show at the instant at
//     which the statement is sent. Its type is [Expected], so the pool fills it in, and no caller can (TestExpected, owners.TestExpectedIsFilledIn).
//   - While the clock is doubted, the pool sends no statement (TestDoubt).
package clock

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"connect-svc/internal/foundation/work"
	"github.com/jackc/pgx/v5/pgtype"
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

// Tolerance is by how much two clocks may differ. The function is_believed of the schema has it, too.
const Tolerance = time.Minute

// maxSlew is by how much one call of [Database.Believe] changes what is expected. So a clock can be corrected slowly, and a clock that
// moves far in many small jumps is not followed.
const maxSlew = 10 * time.Millisecond

// ErrDoubted means that a statement was not sent or did nothing, because the database's clock is not believed.
var ErrDoubted = work.Unreached(errors.New("the database's clock is not believed"))

// Database is the database's clock, as the pool of a server sees it. It is safe for concurrent use.
type Database struct {
	shift     *Clock
	reference atomic.Pointer[reference]
	doubt     atomic.Pointer[error]
}

// Of returns the database's clock for a pool whose time is shift, which may be nil.
func Of(shift *Clock) *Database { return &Database{shift: shift} }

// reference is what the database's clock showed when it was last believed.
type reference struct {
	at    time.Time     // by this machine's clock
	up    time.Duration // [uptime] then
	ahead time.Duration // of the database's clock before at
}

// now returns what the database's clock shows now if it has run evenly since.
func (r reference) now() time.Time { return r.at.Add(uptime() - r.up + r.ahead) }

// Now returns what the clock should show by the [uptime] of this machine, with the shift of the pool, and the shifted time of this machine
// before the first [Database.Believe].
func (d *Database) Now() time.Time {
	if r := d.reference.Load(); r != nil {
		return r.now().Add(d.shift.Offset())
	}
	return d.shift.Now()
}

// Jumped returns by how much the database's clock is ahead of what is expected. ahead is how far it is ahead of this machine's clock now. It
// reports false before the first [Database.Believe].
func (d *Database) Jumped(ahead time.Duration) (time.Duration, bool) {
	r := d.reference.Load()
	if r == nil {
		return 0, false
	}
	return time.Now().Add(ahead).Round(0).Sub(r.now()), true
}

// Believe ends a doubt: from now on the database's clock is expected to run on evenly from what it shows now. ahead is how far it is ahead of
// this machine's clock.
func (d *Database) Believe(ahead time.Duration) {
	if jumped, known := d.Jumped(ahead); known && jumped.Abs() <= Tolerance {
		ahead -= jumped - min(max(jumped, -maxSlew), maxSlew)
	}
	d.reference.Store(&reference{time.Now().Round(0), uptime(), ahead})
	d.doubt.Store(nil)
}

// Doubt has the pool send no statement until the next [Database.Believe]: nothing is decided by a clock that is wrong. The exception are
// statements with a context of [work.AnyClock]. why completes the error.
func (d *Database) Doubt(why string) {
	err := fmt.Errorf("%w: %s", ErrDoubted, why)
	d.doubt.Store(&err)
}

// DoubtUnseen is [Database.Doubt] for a server that has not seen the clock yet: no statement can protect itself before a look. It changes
// nothing afterwards.
func (d *Database) DoubtUnseen() {
	if d.reference.Load() == nil && d.doubt.Load() == nil {
		d.Doubt("this server could not look at it yet")
	}
}

// Err returns an ErrDoubted while the clock is doubted.
func (d *Database) Err() error {
	if doubt := d.doubt.Load(); doubt != nil {
		return *doubt
	}
	return nil
}

// Expected is an argument of a statement: the time that the clock should show at the instant at which the statement is sent, again after a
// wait or a failure. It is null before the first [Database.Believe], and then bounds nothing. sql/ has it as
// @expected::pg_catalog.timestamptz.
type Expected struct{}

// FillIn makes a connection fill in each [Expected] of its statements.
func (d *Database) FillIn(types *pgtype.Map) {
	types.TryWrapEncodePlanFuncs = slices.Insert(types.TryWrapEncodePlanFuncs, 0, func(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
		if _, ok := value.(Expected); !ok {
			return nil, nil, false
		}
		return &expectedPlan{database: d}, pgtype.Timestamptz{}, true
	})
}

// expectedPlan encodes an [Expected].
type expectedPlan struct {
	database *Database
	next     pgtype.EncodePlan
}

func (p *expectedPlan) SetNext(next pgtype.EncodePlan) { p.next = next }

func (p *expectedPlan) Encode(_ any, buf []byte) ([]byte, error) {
	seen := p.database.reference.Load() != nil
	return p.next.Encode(pgtype.Timestamptz{Time: p.database.Now(), Valid: seen}, buf)
}
