package audit

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	auditdb "connect-svc/gen/db/audit"
)

// For tests of the package's own parts.
var (
	Defuse = defuse
	Cells  = Event.cells
)

// Bound makes pages and files of small parts, so that few entries are many.
func (l *Log) Bound(slice, page, file int) {
	l.bounds.slice, l.bounds.page, l.bounds.file = slice, page, file
}

// Settle bounds how long a list waits for transactions that may add entries.
func (l *Log) Settle(limit time.Duration) { l.bounds.settle = limit }

// ReadInOrder has a transaction plan its statements as those of a search are.
func ReadInOrder(ctx context.Context, tx pgx.Tx) error { return auditdb.New(tx).ReadInOrder(ctx) }
