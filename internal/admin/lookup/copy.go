package lookup

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	lookupdb "connect-svc/gen/db/lookup"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

const (
	// copyVersion is that of the schema UserCopy of api/operator.yaml. It increases when a field leaves the copy or changes its meaning.
	copyVersion = 1
	// copyRows is how many rows of a user are in memory at a time.
	copyRows = 1000
	// copiesAtOnce is how many copies are written at a time. Each holds a connection of the pool as long as its reader takes.
	copiesAtOnce = 2
)

// WriteCopy writes all that the database has about a user to w, as one JSON object: UserCopy of api/operator.yaml. Except `user`, each field is
// the list of the user's rows in the table of its name. addressKeys are the keys under which other tables have the user's address. Everything is of one
// instant, which `made_at` tells. ctx bounds the whole copy, also the wait for other copies of this server: if it ends, the object is incomplete.
// Error: refusal.ErrUserNotFound, before anything is written.
func (f Finder) WriteCopy(ctx context.Context, w io.Writer, userID uuid.UUID, addressKeys [][]byte) error {
	if err := f.copies.Acquire(ctx); err != nil {
		return fmt.Errorf("copy of a user's data: %w", err)
	}
	defer f.copies.Release()
	err := postgres.InTx(ctx, f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set transaction isolation level repeatable read, read only"); err != nil {
			return err
		}
		c := copying{ctx: ctx, queries: lookupdb.New(tx), out: bufio.NewWriter(w), userID: userID}
		users, err := c.queries.CopyUser(ctx, userID)
		if err != nil {
			return err
		}
		if len(users) == 0 {
			return refusal.ErrUserNotFound
		}
		fmt.Fprintf(c.out, `{"version":%d,"made_at":%s,"user":%s`, copyVersion, users[0].MadeAt, users[0].Body)
		c.rows(addressKeys)
		_, _ = c.out.WriteString("}\n") // a bufio.Writer keeps its first error
		if c.err == nil {
			c.err = c.out.Flush()
		}
		return c.err
	})
	return postgres.Wrap("copy of a user's data", err)
}

// copying is a copy that is being written. After an error it writes nothing more.
type copying struct {
	ctx     context.Context
	queries *lookupdb.Queries
	out     *bufio.Writer
	userID  uuid.UUID
	err     error
}

// rows writes the lists.
func (c *copying) rows(addressKeys [][]byte) {
	grants, err := c.queries.ListGrantsOfUser(c.ctx, c.userID)
	if c.err = err; err != nil {
		return
	}
	q, ofUser := c.queries, func(read func(context.Context, uuid.UUID) ([][]byte, error)) func() ([][]byte, error) {
		return func() ([][]byte, error) { return read(c.ctx, c.userID) }
	}
	c.list("connections", ofUser(q.CopyConnections))
	inParts(c, "daily_steps", func(last lookupdb.CopyDailyStepsRow) ([]lookupdb.CopyDailyStepsRow, error) {
		return q.CopyDailySteps(c.ctx, lookupdb.CopyDailyStepsParams{UserID: c.userID, After: last.Date, MaxRows: copyRows})
	}, func(row lookupdb.CopyDailyStepsRow) []byte { return row.Body })
	inParts(c, "step_corrections", func(last lookupdb.CopyStepCorrectionsRow) ([]lookupdb.CopyStepCorrectionsRow, error) {
		return q.CopyStepCorrections(c.ctx, lookupdb.CopyStepCorrectionsParams{
			UserID: c.userID, AfterDate: last.Date, AfterID: last.CorrectionID, MaxRows: copyRows,
		})
	}, func(row lookupdb.CopyStepCorrectionsRow) []byte { return row.Body })
	inParts(c, "cycling_activities", func(last lookupdb.CopyCyclingActivitiesRow) ([]lookupdb.CopyCyclingActivitiesRow, error) {
		return q.CopyCyclingActivities(c.ctx, lookupdb.CopyCyclingActivitiesParams{
			UserID: c.userID, AfterTime: last.StartTime, AfterSourceID: last.SourceID, MaxRows: copyRows,
		})
	}, func(row lookupdb.CopyCyclingActivitiesRow) []byte { return row.Body })
	inParts(c, "cycling_adjustments", func(last lookupdb.CopyCyclingAdjustmentsRow) ([]lookupdb.CopyCyclingAdjustmentsRow, error) {
		return q.CopyCyclingAdjustments(c.ctx, lookupdb.CopyCyclingAdjustmentsParams{
			UserID: c.userID, AfterDate: last.Date, AfterID: last.AdjustmentID, MaxRows: copyRows,
		})
	}, func(row lookupdb.CopyCyclingAdjustmentsRow) []byte { return row.Body })
	c.list("known_browsers", ofUser(q.CopyKnownBrowsers))
	c.list("account_sessions", ofUser(q.CopyAccountSessions))
	c.list("sign_ins", ofUser(q.CopySignIns))
	c.list("sign_in_events", func() ([][]byte, error) { return q.CopySignInEvents(c.ctx, addressKeys) })
	c.list("sign_in_limits", func() ([][]byte, error) { return q.CopySignInLimits(c.ctx, addressKeys) })
	c.list("authorization_requests", ofUser(q.CopyAuthorizationRequests))
	c.list("notices", ofUser(q.CopyNotices))
	inParts(c, "webhook_events", func(last lookupdb.CopyWebhookEventsRow) ([]lookupdb.CopyWebhookEventsRow, error) {
		return q.CopyWebhookEvents(c.ctx, lookupdb.CopyWebhookEventsParams{UserID: c.userID, After: last.EventID, MaxRows: copyRows})
	}, func(row lookupdb.CopyWebhookEventsRow) []byte { return row.Body })
	c.list("webhook_changes", ofUser(q.CopyWebhookChanges))
	c.list("client_errors", func() ([][]byte, error) { return q.CopyClientErrors(c.ctx, grants) })
	inParts(c, "audit_log", func(last lookupdb.CopyAuditLogRow) ([]lookupdb.CopyAuditLogRow, error) {
		return q.CopyAuditLog(c.ctx, lookupdb.CopyAuditLogParams{UserID: c.userID, AfterTime: last.At, AfterID: last.ID, MaxRows: copyRows})
	}, func(row lookupdb.CopyAuditLogRow) []byte { return row.Body })
}

// list writes a list that is short.
func (c *copying) list(name string, read func() ([][]byte, error)) {
	if c.err != nil {
		return
	}
	rows, err := read()
	if c.err = err; err == nil {
		_, err = fmt.Fprintf(c.out, ",\n%q:[%s]", name, bytes.Join(rows, []byte(",\n")))
		c.err = err
	}
}

// inParts writes a list in parts. read returns the part after a row, which is the zero value for the first part.
func inParts[Row any](c *copying, name string, read func(last Row) ([]Row, error), body func(Row) []byte) {
	if c.err != nil {
		return
	}
	_, c.err = fmt.Fprintf(c.out, ",\n%q:[", name)
	separator := ""
	for last := *new(Row); c.err == nil; {
		rows, err := read(last)
		if c.err = err; err != nil {
			return
		}
		for _, row := range rows {
			_, c.err = fmt.Fprintf(c.out, "%s%s", separator, body(row))
			separator = ",\n"
		}
		if len(rows) < copyRows {
			break
		}
		last = rows[len(rows)-1]
	}
	_, _ = c.out.WriteString("]")
}
