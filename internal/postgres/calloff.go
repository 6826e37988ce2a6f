package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// callOffTime is how long PostgreSQL has, once the time of a statement is over, to call it off.
const callOffTime = 150 * time.Millisecond

// callOff has PostgreSQL cancel the statement of a connection whose time is over, so that the connection can be used again.
// A connection is closed where it is not known that the cancel request has arrived: it could hit the next statement, which
// is another caller's. The statement may still run then, up to statementTimeout, and hold its locks.
type callOff struct {
	conn *pgconn.PgConn
	done chan struct{}
}

// HandleCancel implements [ctxwatch.Handler].
func (c *callOff) HandleCancel(context.Context) {
	ctx, cancel := context.WithTimeout(context.Background(), callOffTime)
	end, _ := ctx.Deadline()
	_ = c.conn.Conn().SetDeadline(end)
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		defer cancel()
		// It returns when the server has ended the connection that brought the request, after the signal was sent.
		if err := c.conn.CancelRequest(ctx); err != nil || ctx.Err() != nil {
			_ = c.conn.Conn().Close()
		}
	}()
}

// HandleUnwatchAfterCancel implements [ctxwatch.Handler].
func (c *callOff) HandleUnwatchAfterCancel() {
	<-c.done
	_ = c.conn.Conn().SetDeadline(time.Time{})
}
