package demo

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/refusal"
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
	if p.location, err = time.LoadLocation(p.timezone); err != nil {
		return err
	}
	today := dateOf(time.Now().In(p.location))
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

// dateOf returns the calendar day of t, in t's own location, as midnight UTC.
func dateOf(t time.Time) time.Time {
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
