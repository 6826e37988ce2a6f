package audit

import (
	"context"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/postgres"
)

// sweepRows bounds the rows of a statement, so that it ends within its timeout.
const sweepRows = 10_000

// Sweep deletes events whose retention is over.
func (l *Log) Sweep(ctx context.Context) error {
	if l.retention == 0 {
		return nil
	}
	for {
		n, err := l.queries.SweepAuditLog(ctx, auditdb.SweepAuditLogParams{Retention: l.retention, MaxRows: sweepRows})
		if err != nil || n < sweepRows {
			return postgres.Wrap("audit log: sweep", err)
		}
	}
}
