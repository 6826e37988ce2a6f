package postgres

import (
	"context"
	"errors"
	"time"

	"connect-svc/internal/foundation/work"
)

// ClockTolerance is by how much two clocks may differ. The function is_believed of the schema has it, too.
const ClockTolerance = time.Minute

// maxSlew is by how much one call of [Pool.Believe] changes what the pool expects. So a clock can be corrected slowly, and a clock that
// moves far in many small jumps is not followed.
const maxSlew = 10 * time.Millisecond

// ErrClock means that a statement was not sent or did nothing, because the database's clock is not believed.
var ErrClock = work.Unreached(errors.New("the database's clock is not believed"))

// reference is what the database's clock showed when it was last believed.
type reference struct {
	at    time.Time     // by this machine's clock
	up    time.Duration // [uptime] then
	ahead time.Duration // of the database's clock before at
}

// now returns what the database's clock shows now if it has run evenly since.
func (r reference) now() time.Time { return r.at.Add(uptime() - r.up + r.ahead) }

// Expected returns what the database's clock should show by the [uptime] of this machine, with the offset of the pool's [Clock]. It
// is nil before the first [Pool.Believe].
func (p *Pool) Expected() *time.Time {
	r := p.reference.Load()
	if r == nil {
		return nil
	}
	now := r.now().Add(p.clock.Offset())
	return &now
}

// Now returns [Pool.Expected], or the time of the pool's [Clock] if there is none.
func (p *Pool) Now() time.Time {
	if now := p.Expected(); now != nil {
		return *now
	}
	return p.clock.Now()
}

// Jumped returns by how much the database's clock is ahead of what the pool expects, when it is ahead of this machine's clock by that
// much. It reports false before the first [Pool.Believe].
func (p *Pool) Jumped(ahead time.Duration) (time.Duration, bool) {
	r := p.reference.Load()
	if r == nil {
		return 0, false
	}
	return time.Now().Add(ahead).Round(0).Sub(r.now()), true
}

// Believe makes the pool expect what the database's clock shows now, when it is ahead of this machine's clock by that much. The pool sends
// statements again.
func (p *Pool) Believe(ahead time.Duration) {
	if jumped, known := p.Jumped(ahead); known && jumped.Abs() <= ClockTolerance {
		ahead -= jumped - min(max(jumped, -maxSlew), maxSlew)
	}
	p.reference.Store(&reference{time.Now().Round(0), uptime(), ahead})
	p.doubt.Store(nil)
}

// Doubt makes the pool refuse statements with err until the next [Pool.Believe]: nothing is decided by a clock that is wrong. The
// exception are statements with a context of [work.AnyClock].
func (p *Pool) Doubt(err error) { p.doubt.Store(&err) }

// doubted returns why a statement must not be sent.
func (p *Pool) doubted(ctx context.Context) error {
	if doubt := p.doubt.Load(); doubt != nil && !work.HasAnyClock(ctx) {
		return *doubt
	}
	return nil
}

// ClockDifference returns by how much the database's clock, which decides every expiry, is ahead of this machine's clock. The offset of the
// pool's [Clock] does not count. The error is at most half of a round trip.
func ClockDifference(ctx context.Context, pool *Pool) (time.Duration, error) {
	conn, release, err := pool.acquire(work.AnyClock(ctx))
	if err != nil {
		return 0, err
	}
	defer release()
	deliberate, _ := conn.Conn().PgConn().CustomData()[clockOffsetKey].(time.Duration)
	var theirs time.Time
	before := time.Now()
	err = conn.QueryRow(ctx, "select connect_now()").Scan(&theirs)
	return theirs.Sub(before.Add(time.Since(before)/2).Round(0)) - deliberate, err
}
