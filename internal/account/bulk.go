package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/intake"
	"connect-svc/internal/mailbox"
	"connect-svc/internal/postgres"
)

var (
	usersColumns = []string{"user_id", "email", "timezone", "registered_on"}

	errUserID    = errors.New("must be a UUID, and not the nil UUID")
	errSameEmail = errors.New("another row has this e-mail address")
)

// A batch holds a connection until it is written. Few at a time leave the others to those who sign in.
const (
	batchesAtOnce  = 2
	batchesWaiting = 64
)

// PutUsers creates users, or changes those whose ids exist, all or none: then the error is an [intake.BadRows], whose lines are
// the numbers of the users, from 1. Of two with one id the last one counts. Users may take over addresses from each other. A
// changed address or time zone has the consequences that it has with [Accounts.ChangeUser].
func (a *Accounts) PutUsers(ctx context.Context, users []NewUser) (intake.Result, error) {
	zones, err := a.timezones.known(ctx, a.listTimezones)
	if err != nil {
		return intake.Result{}, err
	}
	var bad intake.BadRows
	var rows [][]any
	for i, user := range users {
		values, faults := userValues(nil, user, i+1, zones)
		if faults != nil {
			bad.Add(faults...)
			continue
		}
		rows = append(rows, values)
	}
	if err := a.batches.Acquire(ctx); err != nil {
		return intake.Result{}, fmt.Errorf("account: put users: %w", err)
	}
	defer a.batches.Release()
	w := bulkWriter{Accounts: a, bad: &bad, progress: func(float64) {}}
	result, err := w.write(ctx, a.settings.Limits.Batch, pgx.CopyFromRows(rows), func() int64 { return int64(len(users)) })
	if err != nil {
		return intake.Result{}, fmt.Errorf("account: put users: %w", err)
	}
	return result, nil
}

// ImportUsers takes a file with the columns user_id,email,timezone,registered_on, as [Accounts.PutUsers] takes a batch. An empty
// user_id creates a user with a new id. Either the whole file is taken or nothing of it: then the error is an
// [intake.BadRows] or, for the header, an [intake.RowError], or says what else failed. Memory does not grow with the file.
// progress may be nil.
func (a *Accounts) ImportUsers(ctx context.Context, file io.Reader, progress func(intake.Progress)) (intake.Result, error) {
	zones, err := a.timezones.known(ctx, a.listTimezones)
	if err != nil {
		return intake.Result{}, err
	}
	reader, err := intake.NewReader(file, usersColumns, progress, func(values []any, row []string, line int) ([]any, []*intake.RowError) {
		user, faults := parseUserRow(row, line)
		values, more := userValues(values, user, line, zones)
		return values, append(faults, more...)
	})
	if err != nil {
		return intake.Result{}, fmt.Errorf("account: import users: %w", err)
	}
	w := bulkWriter{Accounts: a, bad: reader.Bad(), progress: reader.Storing}
	result, err := w.write(ctx, 0, reader, reader.Rows)
	if err != nil {
		return intake.Result{}, fmt.Errorf("account: import users: %w", err)
	}
	return result, nil
}

// parseUserRow reads what is not text. Where it cannot, it leaves a value that userValues accepts.
func parseUserRow(row []string, line int) (user NewUser, faults []*intake.RowError) {
	user = NewUser{ID: uuid.New(), Email: row[1], Timezone: row[2]}
	if row[0] != "" {
		id, err := intake.ParseUUID(row[0])
		if err != nil {
			faults = append(faults, &intake.RowError{Line: line, Column: "user_id", Err: errUserID})
		} else {
			user.ID = id
		}
	}
	day, err := time.Parse(time.DateOnly, row[3]) // the year 0 for what is no date
	if user.RegisteredOn = day; err != nil {
		user.RegisteredOn = time.Time{}
	}
	return user, faults
}

// userValues appends the values of a row to copy, or says what is wrong with it.
func userValues(values []any, user NewUser, line int, zones map[string]bool) ([]any, []*intake.RowError) {
	var faults []*intake.RowError
	refuse := func(column string, reason error) {
		faults = append(faults, &intake.RowError{Line: line, Column: column, Err: reason})
	}
	if user.ID == uuid.Nil {
		refuse("user_id", errUserID)
	}
	if !mailbox.Valid(user.Email) {
		refuse(errEmail.Field, errEmail.asReason())
	}
	if !zones[user.Timezone] {
		refuse(errTimezone.Field, errTimezone.asReason())
	}
	day, err := dateOf(user.RegisteredOn)
	if err != nil {
		refuse(errRegisteredOn.Field, errRegisteredOn.asReason())
	}
	return append(values, line, user.ID, user.Email, user.Timezone, day), faults
}

// asReason is the error as the reason of a row's.
func (e *InvalidUserError) asReason() error { return errors.New("must be " + e.Wanted) }

// bulkWriter writes rows of users from a staging table.
type bulkWriter struct {
	*Accounts
	bad      *intake.BadRows // complete when all rows are staged
	progress func(share float64)
	taken    bool // the attempt before found an id or an address taken
}

// errOvertaken says that a row was changed by another transaction since it was looked at.
var errOvertaken = errors.New("users were changed meanwhile")

// bulkAttempts is how often a write begins again because another transaction got in its way. Of those that write the same users
// at a time one gets on. On a cluster nothing is locked beforehand, so that several others may come first.
const bulkAttempts = 20

func (w *bulkWriter) write(ctx context.Context, limit time.Duration, rows pgx.CopyFromSource, read func() int64) (result intake.Result, err error) {
	columns := []string{"line", "user_id", "email", "timezone", "registered_on"}
	types := []string{"bigint", "uuid", "text", "text", "date"}
	err = postgres.InTx(ctx, w.pool, func(tx pgx.Tx) error {
		if err := postgres.Stage(ctx, tx, limit, columns, types, rows); err != nil {
			return err
		}
		w.progress(0)
		for attempt := 1; ; attempt++ {
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) { // a savepoint
				result, err = w.attempt(ctx, tx, read())
				return err
			})
			w.taken = postgres.IsUniqueViolation(err, "")
			switch overtaken := w.taken || errors.Is(err, errOvertaken) || postgres.IsDeadlock(err); {
			case !overtaken:
				return err
			case attempt == bulkAttempts:
				return errOvertaken
			}
		}
	})
	if err != nil {
		return intake.Result{}, err
	}
	result.Settle(read())
	return result, nil
}

// attempt writes the staged rows. It fails if a row is bad. Should another transaction get in its way, the error is a unique
// violation, a deadlock, or errOvertaken.
func (w *bulkWriter) attempt(ctx context.Context, tx pgx.Tx, rows int64) (intake.Result, error) {
	if err := w.compare(ctx, tx); err != nil {
		return intake.Result{}, err
	}
	deleted, err := w.namesDeleted(ctx, tx)
	if err != nil {
		return intake.Result{}, err
	}
	if deleted || w.taken || w.bad.Count > 0 {
		if err := w.findFaults(ctx, tx, rows); err != nil {
			return intake.Result{}, err
		}
	}
	return w.writeChanges(ctx, tx)
}
