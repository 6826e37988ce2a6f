package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/timezone"
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
	w := bulkWriter{Accounts: a, limit: a.settings.Limits.Batch, bad: new(intake.BadRows), progress: func(float64) {}}
	var rows [][]any
	for i, user := range users {
		values, wrong := userValues(nil, user, i+1)
		if wrong = a.sendable(ctx, user.Email, i+1, wrong); wrong != nil {
			w.bad.Add(wrong...)
			continue
		}
		rows = append(rows, values)
	}
	if err := a.batches.Acquire(ctx); err != nil {
		return intake.Result{}, fmt.Errorf("account: put users: %w", err)
	}
	defer a.batches.Release()
	result, err := w.write(ctx, pgx.CopyFromRows(rows), func() int64 { return int64(len(users)) })
	return result, postgres.Wrap("account: put users", err)
}

// ImportUsers is [Accounts.PutUsers] for a file with the columns user_id,email,timezone,registered_on. An empty user_id creates a user
// with a new id. Either the whole file is written or none of it; then the error is an [intake.BadRows], an [intake.RowError] for the
// header, or another failure. Memory does not grow with the file. progress may be nil.
func (a *Accounts) ImportUsers(ctx context.Context, file io.Reader, progress func(intake.Progress)) (intake.Result, error) {
	columns := []string{"user_id", "email", "timezone", "registered_on"}
	reader, err := intake.NewReader(file, columns, progress, func(values []any, row []string, line int) ([]any, []*intake.RowError) {
		user := NewUser{ID: uuid.New(), Email: row[1], Timezone: row[2]}
		if row[0] != "" {
			user.ID, _ = intake.ParseUUID(row[0]) // the nil UUID is refused
		}
		user.RegisteredOn, _ = time.Parse(time.DateOnly, row[3]) // the year 1 is refused
		values, wrong := userValues(values, user, line)
		return values, a.sendable(ctx, user.Email, line, wrong)
	})
	if err != nil {
		return intake.Result{}, fmt.Errorf("account: import users: %w", err)
	}
	w := bulkWriter{Accounts: a, bad: reader.Bad(), progress: reader.Storing}
	result, err := w.write(ctx, reader, reader.Rows)
	return result, postgres.Wrap("account: import users", err)
}

// userValues appends the values of a row to copy, or returns what is wrong with it.
func userValues(values []any, user NewUser, line int) ([]any, []*intake.RowError) {
	user.Timezone, _ = timezone.Canonical(user.Timezone)
	user.Email = text.StoredAddress(user.Email)
	wrong := UserChange{&user.Email, &user.Timezone, &user.RegisteredOn}.wrong()
	if user.ID == uuid.Nil {
		wrong = append([]*refusal.FieldError{errUserID}, wrong...)
	}
	if wrong != nil {
		return nil, postgres.Map(wrong, func(field *refusal.FieldError) *intake.RowError {
			return &intake.RowError{Line: line, Column: field.Field, Err: errors.New(field.Problem)}
		})
	}
	return append(values, line, user.ID, user.Email, user.Timezone, user.RegisteredOn, text.AddressKey(user.Email)), nil
}
