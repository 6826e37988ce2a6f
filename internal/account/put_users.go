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
	"connect-svc/internal/refusal"
)

var (
	usersColumns = []string{"user_id", "email", "timezone", "registered_on"}

	errSameEmail = errors.New("another row has this e-mail address")
)

// A batch holds a database connection until it is written. Few concurrent ones leave the others to sign-ins.
const (
	concurrentBatches = 2
	waitingBatches    = 64
)

// PutUsers creates users, or changes those whose ids exist, all or none. If a user is wrong the error is an [intake.BadRows] whose lines
// are the numbers of the users, from 1. The last of several users with one id counts. Users may exchange addresses. A changed address or
// time zone has the effects of [Accounts.ChangeUser].
func (a *Accounts) PutUsers(ctx context.Context, users []NewUser) (intake.Result, error) {
	zones, err := a.timezones.known(ctx, a.listTimezones)
	if err != nil {
		return intake.Result{}, err
	}
	var bad intake.BadRows
	var rows [][]any
	for i, user := range users {
		values, wrong := userValues(nil, user, i+1, zones)
		if wrong != nil {
			bad.Add(wrong...)
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

// ImportUsers is [Accounts.PutUsers] for a file with the columns user_id,email,timezone,registered_on. An empty user_id creates a user
// with a new id. Either the whole file is written or none of it; then the error is an [intake.BadRows], an [intake.RowError] for the
// header, or another failure. Memory does not grow with the file. progress may be nil.
func (a *Accounts) ImportUsers(ctx context.Context, file io.Reader, progress func(intake.Progress)) (intake.Result, error) {
	zones, err := a.timezones.known(ctx, a.listTimezones)
	if err != nil {
		return intake.Result{}, err
	}
	reader, err := intake.NewReader(file, usersColumns, progress, func(values []any, row []string, line int) ([]any, []*intake.RowError) {
		user, wrong := parseUserRow(row, line)
		values, more := userValues(values, user, line, zones)
		return values, append(wrong, more...)
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

// parseUserRow parses the values that are not text. For a wrong one it leaves a value that userValues accepts.
func parseUserRow(row []string, line int) (user NewUser, wrong []*intake.RowError) {
	user = NewUser{ID: uuid.New(), Email: row[1], Timezone: row[2]}
	if row[0] != "" {
		id, err := intake.ParseUUID(row[0])
		if err != nil {
			wrong = append(wrong, &intake.RowError{Line: line, Column: "user_id", Err: errors.New(errUserID.Problem)})
		} else {
			user.ID = id
		}
	}
	day, err := time.Parse(time.DateOnly, row[3]) // the year 0 if it is not a date
	if user.RegisteredOn = day; err != nil {
		user.RegisteredOn = time.Time{}
	}
	return user, wrong
}

// userValues appends the values of a row to copy, or returns what is wrong with it.
func userValues(values []any, user NewUser, line int, zones map[string]bool) ([]any, []*intake.RowError) {
	var wrong []*intake.RowError
	refuse := func(field *refusal.FieldError) {
		wrong = append(wrong, &intake.RowError{Line: line, Column: field.Field, Err: errors.New(field.Problem)})
	}
	if user.ID == uuid.Nil {
		refuse(errUserID)
	}
	if !mailbox.Valid(user.Email) {
		refuse(errEmail)
	}
	if !zones[user.Timezone] {
		refuse(errTimezone)
	}
	day, err := dateOf(user.RegisteredOn)
	if err != nil {
		refuse(errRegisteredOn)
	}
	return append(values, line, user.ID, user.Email, user.Timezone, day), wrong
}
