package activity

import (
	"context"
	"fmt"
	"time"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/timezone"
	"github.com/jackc/pgx/v5"
)

// daysAhead is one day more than a traveller or a clock of another zone may be ahead.
const daysAhead = 2

// owner is the user of a row, as far as the dates of the user's activity depend on it.
type owner struct {
	timezone     string
	registeredOn time.Time
}

// dates are those that users may have activity of: up to daysAhead after today in the user's time zone, which tells a row of a clock that is wrong
// from one of a traveller, and from so many days before the day of registration.
type dates struct {
	now  time.Time
	days *int                 // before the day of registration; nil: any
	last map[string]time.Time // by time zone, as far as they are known
}

func (h History) dates(now time.Time) *dates {
	d := &dates{now: now, last: map[string]time.Time{}}
	if h.History > 0 {
		d.days = new(int(h.History / (24 * time.Hour)))
	}
	return d
}

// sure is the last date that no time zone makes too late.
func (d *dates) sure() time.Time {
	return timezone.Day(d.now.UTC().Add(-12*time.Hour)).AddDate(0, 0, daysAhead)
}

// problem says why activity of a date is refused. It is empty if the date is accepted. Corrections may be of any date in the past.
func (d *dates) problem(of owner, date time.Time, isCorrection bool) string {
	if d.days != nil && !isCorrection && date.Before(of.registeredOn.AddDate(0, 0, -*d.days)) {
		return fmt.Sprintf("must be at most %d days before the user registered", *d.days)
	}
	if !date.After(d.sure()) {
		return ""
	}
	last, known := d.last[of.timezone]
	if !known {
		last = timezone.Day(d.now.In(timezone.Location(of.timezone))).AddDate(0, 0, daysAhead)
		d.last[of.timezone] = last
	}
	if date.After(last) {
		return "must be at most two days after today in the user's time zone"
	}
	return ""
}

// refuseDates adds the staged rows with dates that their users may not have to the bad rows.
func refuseDates(ctx context.Context, tx pgx.Tx, into table, reader *intake.Reader, dates *dates) error {
	rows, _ := tx.Query(ctx, into.fill(`
with wanted as materialized (
	select line, user_id, DATE as date from staged where DATE > $1::date or $2::int is not null
), known as materialized (
	select users.user_id, users.timezone, users.registered_on
	from users join (select distinct user_id from wanted) named on named.user_id = users.user_id
)
select wanted.line, wanted.date, known.timezone, known.registered_on from wanted join known on known.user_id = wanted.user_id
where wanted.date > $1::date or wanted.date < known.registered_on - $2::int
order by wanted.line`), dates.sure(), dates.days) // ForEachRow has its error
	var line int
	var date time.Time
	var user owner
	var count int64
	var named []refusal.Field
	_, err := pgx.ForEachRow(rows, []any{&line, &date, &user.timezone, &user.registeredOn}, func() error {
		if problem := dates.problem(user, date, false); problem != "" {
			if count++; len(named) < refusal.MaxNamed {
				named = append(named, refusal.Field{Row: line, Path: into.dateField, Problem: problem})
			}
		}
		return nil
	})
	if err == nil {
		reader.Bad().AddRows(count, named)
	}
	return postgres.Wrap("check the dates", err)
}
