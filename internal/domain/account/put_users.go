package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// PutUsers creates users, or changes those whose ids exist, all or none. If a user is wrong the error is an [refusal.Fields] whose rows
// are the numbers of the users, from 1. The last of several users with one id counts. Users may exchange addresses. A changed address or
// time zone has the effects of [Accounts.ChangeUser].
func (a *Accounts) PutUsers(ctx context.Context, users []NewUser) (intake.Result, error) {
	w := bulkWriter{Accounts: a, limit: a.settings.Limits.Batch, bad: new(refusal.Fields), progress: func(float64) {}}
	var rows [][]any
	for i, user := range users {
		values, wrong := a.userValues(ctx, nil, user, i+1)
		if wrong != nil {
			w.bad.AddRow(i+1, wrong...)
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
// with a new id. Either the whole file is written or none of it; then the error is a [refusal.Fields], a [refusal.Field] for the
// header, or another failure. Memory does not grow with the file. progress may be nil.
func (a *Accounts) ImportUsers(ctx context.Context, file io.Reader, progress func(intake.Progress)) (intake.Result, error) {
	columns := []string{"user_id", "email", "timezone", "registered_on"}
	reader, err := intake.NewReader(file, columns, "", progress, func(values []any, row []string, line int) ([]any, []refusal.Field) {
		user := NewUser{ID: uuid.New(), Email: row[1], Timezone: row[2]}
		if row[0] != "" {
			user.ID, _ = intake.ParseUUID(row[0]) // the nil UUID is refused
		}
		user.RegisteredOn, _ = time.Parse(time.DateOnly, row[3]) // the year 1 is refused
		return a.userValues(ctx, values, user, line)
	})
	if err != nil {
		return intake.Result{}, fmt.Errorf("account: import users: %w", err)
	}
	w := bulkWriter{Accounts: a, bad: reader.Bad(), progress: reader.Storing}
	result, err := w.write(ctx, reader, reader.Rows)
	return result, postgres.Wrap("account: import users", err)
}

// userValues appends the values of a row to copy, or returns what is wrong with it.
func (a *Accounts) userValues(ctx context.Context, values []any, user NewUser, line int) ([]any, []refusal.Field) {
	user.Timezone, _ = timezone.Canonical(user.Timezone)
	user.Email = text.StoredAddress(user.Email)
	wrong := UserChange{&user.Email, &user.Timezone, &user.RegisteredOn}.wrong()
	if user.ID == uuid.Nil {
		wrong = append([]refusal.Field{errUserID}, wrong...)
	}
	if wrong = append(wrong, refusal.FieldsOf(a.checkSendable(ctx, user.Email))...); wrong != nil {
		return nil, wrong
	}
	return append(values, line, user.ID, user.Email, user.Timezone, user.RegisteredOn, text.AddressKey(user.Email)), nil
}

// bulkWriter writes rows of users from a staging table.
type bulkWriter struct {
	*Accounts
	limit    time.Duration   // of each statement, or 0 for no limit
	bad      *refusal.Fields // complete when all rows are staged
	progress func(share float64)
	taken    bool // the previous attempt found an id or an address taken
}

// write writes the rows. read returns how many rows were read, including bad ones.
func (w *bulkWriter) write(ctx context.Context, rows pgx.CopyFromSource, read func() int64) (result intake.Result, err error) {
	columns := []string{"line", "user_id", "email", "timezone", "registered_on", "address"}
	types := []string{"bigint", "uuid", "text", "text", "date", "text"}
	err = postgres.InTx(ctx, w.pool, func(tx pgx.Tx) error {
		if err := postgres.Stage(ctx, tx, w.limit, columns, types, rows); err != nil {
			return err
		}
		w.progress(0)
		for attempt := 1; ; attempt++ {
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) { // a savepoint
				result, err = w.attempt(ctx, tx, read())
				return err
			})
			w.taken = postgres.Is(err, postgres.UniqueViolation)
			switch overtaken := w.taken || errors.Is(err, errOvertaken) || postgres.Is(err, postgres.DeadlockDetected); {
			case !overtaken:
				return err
			// One of several that write the same users succeeds. On a cluster nothing is locked before the comparison, so several others may
			// come first.
			case attempt == 20:
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

// attempt writes the staged rows, unless a row is wrong. If another transaction interferes, the error is a unique violation, a
// deadlock, or errOvertaken.
func (w *bulkWriter) attempt(ctx context.Context, tx pgx.Tx, rows int64) (result intake.Result, err error) {
	if err := w.compare(ctx, tx); err != nil {
		return result, err
	}
	var deleted bool // one of the new ids belonged to a deleted user
	if err := tx.QueryRow(ctx, `select count(*) filter (where is_new), count(*) filter (where not is_new),
		exists (select 1 from writing join audit_log e on e.subject = writing.user_id where writing.is_new and e.action = 'user.deleted')
		from writing`).Scan(&result.Inserted, &result.Updated, &deleted); err != nil {
		return result, fmt.Errorf("count: %w", err)
	}
	if deleted || w.taken || w.bad.Count > 0 {
		if err := w.findWrong(ctx, tx, rows); err != nil {
			return result, err
		}
	}
	return result, w.writeChanges(ctx, tx, result.Updated)
}

// compare creates the table of rows to write: the last staged row of each id, ordered by id, with the stored values. Rows that are
// stored already are left out. It first locks the rows that it will change, in one order, so that they stay as compared.
func (w *bulkWriter) compare(ctx context.Context, tx pgx.Tx) error {
	var sharded bool
	if err := tx.QueryRow(ctx, "select "+postgres.IsSharded).Scan(&sharded); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	statements := []string{
		`select 1 from users stored join staged using (user_id)
		where (stored.email, stored.timezone, stored.registered_on) is distinct from (staged.email, staged.timezone, staged.registered_on)
		order by stored.user_id for no key update of stored`,
		`create temporary table writing on commit drop as
		select latest.*, stored.email as former_email, stored.timezone as former_timezone,
			stored.registered_on as former_registered_on, stored.user_id is null as is_new
		from (select distinct on (user_id) * from staged order by user_id, line desc) latest
		left join users stored on stored.user_id = latest.user_id
		where stored.user_id is null
			or (stored.email, stored.timezone, stored.registered_on) is distinct from (latest.email, latest.timezone, latest.registered_on)
		order by latest.user_id`,
		"analyze writing",
	}
	if sharded {
		statements = statements[1:]
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	return nil
}

// findWrong returns the error of all wrong rows, including those that only the database can detect; nil if there are none. An address
// is taken if another user has it and does not give it up in the same write.
func (w *bulkWriter) findWrong(ctx context.Context, tx pgx.Tx, rows int64) error {
	invalid, _ := tx.Query(ctx, `
with wanted as materialized (
	select line, user_id, address from writing where is_new or email <> former_email
), taken as materialized (
	select a.address from user_addresses a join wanted on wanted.address = a.address
	where a.user_id <> wanted.user_id
		and not exists (select from wanted as moving where moving.user_id = a.user_id and moving.address <> a.address)
), wrong as (
	select line, 'user_id' as field, 1 as reason from writing join audit_log e on e.subject = writing.user_id
	where writing.is_new and e.action = 'user.deleted'
	union all
	select wanted.line, 'email', 2 from wanted join taken on taken.address = wanted.address
	union all
	select line, 'email', 3 from (select line, row_number() over (partition by address order by line) as nth from wanted) as same
	where nth > 1
)
select distinct on (line, field) line, field, reason, (select count(distinct line) from wrong)
from wrong order by line, field, reason limit $1`, refusal.MaxNamed) // ForEachRow has its error
	var line, reason int
	var field string
	var count int64
	var wrong []refusal.Field
	if _, err := pgx.ForEachRow(invalid, []any{&line, &field, &reason, &count}, func() error {
		problems := []string{1: ErrUserDeleted.Error(), 2: ErrEmailTaken.Error(), 3: "another row has this e-mail address"}
		wrong = append(wrong, refusal.Field{Row: line, Path: field, Problem: problems[reason]})
		return nil
	}); err != nil {
		return fmt.Errorf("look for wrong rows: %w", err)
	}
	w.bad.AddRows(count, wrong)
	return w.bad.Err(rows)
}

// writeChanges writes the compared rows. The error is errOvertaken if a row has changed since, and a unique violation if another
// transaction has added one of the ids or addresses. Users come before addresses, as in the other acts: on a cluster a deletion of
// addresses keeps all others from writing any, so whoever holds a user that they wait for must not wait for it.
func (w *bulkWriter) writeChanges(ctx context.Context, tx pgx.Tx, changing int64) error {
	var changed int64
	err := postgres.InParts(ctx, tx, "writing", func(part postgres.Part) error {
		n, err := w.writePart(ctx, tx, part)
		changed += n
		w.progress(part.Share / 2)
		return err
	})
	switch {
	case err != nil:
		return err
	case changed != changing:
		return errOvertaken
	case changing > 0:
		// Before any is inserted, because an address may move from one user to another.
		if err := postgres.InParts(ctx, tx, "writing", func(part postgres.Part) error { return w.deleteAddresses(ctx, tx, part) }); err != nil {
			return err
		}
	}
	return postgres.InParts(ctx, tx, "writing", func(part postgres.Part) error {
		_, err := tx.Exec(ctx, `insert into user_addresses (address, user_id, email)
			select address, user_id, email from writing where `+postgres.InPart+` and (is_new or email <> former_email)
			order by address collate "C"`, part.Args()...)
		w.progress((1 + part.Share) / 2)
		return postgres.Wrap("write addresses", err)
	})
}

// deleteAddresses does for the former addresses of a part what [Accounts.changeAddress] does for one.
func (w *bulkWriter) deleteAddresses(ctx context.Context, tx pgx.Tx, part postgres.Part) error {
	const moving = "from writing where " + postgres.InPart + " and not is_new and email <> former_email"
	args := part.Args()
	var ids []uuid.UUID
	var former, addresses []string // addresses (until 1.3.0): see DeleteAddress
	if err := tx.QueryRow(ctx, "select array_agg(user_id), array_agg(former_email), array_agg(lower(former_email)) "+moving, args...).
		Scan(&ids, &former, &addresses); err != nil {
		return fmt.Errorf("read former addresses: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	rest := former
	for some := range slices.Chunk(ids, 10_000) {
		if err := w.endAccess(ctx, tx, some, rest[:len(some)]); err != nil {
			return fmt.Errorf("end sign-ins: %w", err)
		}
		rest = rest[len(some):]
	}
	deleted, err := tx.Exec(ctx, "delete from user_addresses where (address, user_id) in (select * from unnest($1::text[], $2::uuid[]))",
		slices.Concat(addresses, postgres.Map(former, text.AddressKey)), slices.Concat(ids, ids))
	if err == nil && deleted.RowsAffected() != int64(len(ids)) {
		return errOvertaken // on a cluster: a change of which one node tells before another
	}
	return postgres.Wrap("delete former addresses", err)
}

// writePart writes the users of a part, with their entries of the audit log. It returns how many users it changed: those that still
// are as compared.
func (w *bulkWriter) writePart(ctx context.Context, tx pgx.Tx, part postgres.Part) (updated int64, err error) {
	const inPart = " from writing where " + postgres.InPart
	args := part.Args()
	changed, err := tx.Exec(ctx, `
update users as stored
set email = w.email, timezone = w.timezone, registered_on = w.registered_on
from (select *`+inPart+` and not is_new) as w
where stored.user_id = w.user_id and stored.`+postgres.InPart+`
	and (stored.email, stored.timezone, stored.registered_on) = (w.former_email, w.former_timezone, w.former_registered_on)`, args...)
	if err != nil {
		return 0, fmt.Errorf("change users: %w", err)
	}
	for _, insert := range []struct {
		statement string
		args      []any
	}{
		{`insert into users (user_id, email, timezone, registered_on, created_at)
		select user_id, email, timezone, registered_on, (select connect_now())` + inPart + ` and is_new order by user_id`, args},
		{`insert into audit_log (subject, at, actor, action, user_id, detail)
		select user_id, (select connect_now()), $3::text, case when is_new then 'user.created' else 'user.changed' end, user_id,
			case when is_new then '{}' else jsonb_build_object('email', email <> former_email, 'timezone', timezone <> former_timezone,
				'registered_on', registered_on <> former_registered_on) end` + inPart + ` order by user_id`, append(args, work.Actor(ctx))},
	} {
		if _, err := tx.Exec(ctx, insert.statement, insert.args...); err != nil {
			return 0, fmt.Errorf("write users: %w", err)
		}
	}
	return changed.RowsAffected(), nil
}
