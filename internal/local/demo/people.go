package demo

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/timezone"
)

type person struct {
	key, name, email, timezone string
	seed                       uint64 // of the sample data

	id       uuid.UUID
	location *time.Location
}

// samplePeople are the users. The first one is connected from the start.
func samplePeople() []person {
	return []person{
		{key: "alex", name: "Alex", email: "alex@example.com", timezone: "Europe/Berlin", seed: 11},
		{key: "robin", name: "Robin", email: "robin@example.com", timezone: "Europe/Lisbon", seed: 3},
	}
}

// seedPerson finds or creates the user, and adds activity since the last day that has steps, at first for a year.
func (d *demo) seedPerson(ctx context.Context, p *person) (err error) {
	p.location = timezone.Location(p.timezone)
	today := timezone.Day(time.Now().In(p.location))
	user, err := d.service.Accounts.FindUser(ctx, p.email)
	if errors.Is(err, refusal.ErrUserNotFound) {
		user, err = d.service.Accounts.CreateUser(ctx, account.NewUser{
			Email: p.email, Timezone: p.timezone, RegisteredOn: today.AddDate(-1, 0, 0),
		})
	}
	if err != nil {
		return err
	}
	p.id = user.ID
	var last *time.Time
	if err := d.service.Pool.QueryRow(ctx, "select max(date) from daily_steps where user_id = $1", p.id).Scan(&last); err != nil {
		return err
	}
	days := 365
	if last != nil {
		days = min(days, int(today.Sub(*last)/(24*time.Hour)))
	}
	if days < 1 {
		return nil
	}
	if _, err := d.service.Activity.SampleData(ctx, p.id, days, p.seed); err != nil || last != nil {
		return err
	}
	// On two days the tracker stayed at home: no record differs from zero steps, and the chart shows that.
	_, err = d.service.Pool.Exec(ctx, "delete from daily_steps where user_id = $1 and date = any($2)",
		p.id, []time.Time{today.AddDate(0, 0, -9), today.AddDate(0, 0, -20)})
	return err
}
