package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"connect-svc/internal/foundation/work"
)

// cancelOnDeadline has PostgreSQL cancel a statement that is past its deadline, so that its connection can be used again. If it cannot
// confirm that the cancel request arrived, it closes the connection, because the request could cancel the next statement, of another
// caller. The overdue statement may then run until its own timeout and hold its locks.
type cancelOnDeadline struct {
	conn *pgconn.PgConn
	time time.Duration // for the cancel request
	done chan struct{}
}

func (c *cancelOnDeadline) HandleCancel(context.Context) {
	ctx, cancel := context.WithTimeout(context.Background(), c.time)
	end, _ := ctx.Deadline()
	_ = c.conn.Conn().SetDeadline(end)
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		defer cancel()
		// CancelRequest returns when the server closes the connection of the request, which it does after it sent the signal.
		if err := work.Try(func() error { return c.conn.CancelRequest(ctx) }); err != nil || ctx.Err() != nil {
			_ = c.conn.Conn().Close()
		}
	}()
}

func (c *cancelOnDeadline) HandleUnwatchAfterCancel() {
	<-c.done
	_ = c.conn.Conn().SetDeadline(time.Time{})
}
