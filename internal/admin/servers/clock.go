package servers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	serversdb "connect-svc/gen/db/servers"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"github.com/jackc/pgx/v5"
)

// LookEvery is how often [Servers.LookAtClock] is to be called.
const LookEvery = time.Second

// settleAfter is how long a clock that jumped is not believed although all clocks agree with it: the clock of a machine may have jumped
// that runs the database and all servers.
const settleAfter = 10 * time.Minute

// Clock is what a server knows of the database's clock.
type Clock struct {
	Ahead  time.Duration // of this server's clock
	Doubt  string        // why the database's clock is not believed; empty if it is
	jumped time.Time     // when it was first seen not to have run evenly; zero if it has
}

// OwnWrong reports whether this server's clock is wrong: it differs from the database's, which is believed.
func (c Clock) OwnWrong() bool { return c.Doubt == "" && c.Ahead.Abs() > clock.Tolerance }

// Wrong reports whether the database's clock is not believed, or this server's is wrong.
func (c Clock) Wrong() bool { return c.Doubt != "" || c.OwnWrong() }

// String says in a line what is wrong.
func (c Clock) String() string {
	if c.OwnWrong() {
		return "this server's clock is wrong: " + differs(c.Ahead, "this server's")
	}
	return c.Doubt
}

// ClockWrong reports whether the server's own clock is wrong.
func (s Server) ClockWrong() bool { return Clock{Ahead: s.ClockAhead}.OwnWrong() }

func differs(ahead time.Duration, than string) string {
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("the database's clock is %s %s %s", ahead.Abs().Round(time.Second), direction, than)
}

// Clock returns the result of the last [Servers.LookAtClock].
func (s *Servers) Clock() Clock { return *s.clock.Load() }

// LookAtClock compares the database's clock with this server's clocks and with what the other servers say. It makes the pool believe the
// database's clock, or doubt it. Call it from one goroutine. If the database does not answer, nothing changes.
func (s *Servers) LookAtClock(ctx context.Context) error {
	var others serversdb.CountClocksRow // of the statement that asks for the time: every server sends it every second
	ahead, err := postgres.ClockDifferenceBy(ctx, s.pool, func(ctx context.Context, conn *pgx.Conn) (_ time.Time, err error) {
		others, err = serversdb.New(conn).CountClocks(ctx, serversdb.CountClocksParams{ServerID: s.ID()})
		return others.Now, err
	})
	if err != nil {
		return fmt.Errorf("servers: clock: %w", err)
	}
	jump, known := s.pool.Clock().Jumped(ahead)
	verdict := judge(time.Now(), s.Clock(), ahead, jump, known, others)
	s.clock.Store(&verdict)
	if verdict.Doubt != "" {
		s.pool.Clock().Doubt(verdict.Doubt)
	} else {
		s.pool.Clock().Believe(ahead)
	}
	return nil
}

// judge decides whether the database's clock is believed: if more than half of the votes agree with it. The database's clock has one vote, this
// server's clock has one, and each other server has two. Once the database's clock was believed (known), the time that this server has run
// since then has a vote, too. ahead is how far the database's clock is ahead of this server's, and jump how far it is ahead of what it should
// show since it was last believed.
//
// A clock that jumped needs more than the votes: a server that saw it run evenly, which proves that this server was suspended, or time.
func judge(now time.Time, before Clock, ahead, jump time.Duration, known bool, others serversdb.CountClocksRow) Clock {
	verdict := Clock{Ahead: ahead}
	agree := 1 + others.Agreeing + others.Believing
	votes := 2 + 2*others.Servers
	if ahead.Abs() <= clock.Tolerance {
		agree++
	}
	if known {
		votes++
	}
	jumped := known && jump.Abs() > clock.Tolerance
	if jumped {
		verdict.jumped = cmp.Or(before.jumped, now)
	} else if known {
		agree++
	}
	switch {
	case 2*agree <= votes && jumped:
		verdict.Doubt = differs(jump, "what it should show since it was last believed")
	case 2*agree <= votes:
		verdict.Doubt = differs(ahead, "that of most servers")
	case jumped && others.Believing == 0 && now.Sub(verdict.jumped) < settleAfter:
		verdict.Doubt = differs(jump, "what it should show, although it agrees with the servers' clocks: it is believed again after ten minutes, or after a restart")
	}
	return verdict
}
