package main

import (
	"fmt"
	"io"

	"github.com/google/uuid"
)

type sampleDataCommand struct {
	output
	databaseSetting
	User userOrEmail `required:"" placeholder:"UUID|EMAIL" help:"The user's id or e-mail address."`
	Days int         `required:"" placeholder:"N" help:"Number of days up to and including today, 1 to 3650."`
	Seed uint64      `default:"1" placeholder:"N" help:"Random seed; the same seed generates the same activity (default ${default})."`
}

type sampleDataJSON struct {
	UserID            uuid.UUID  `json:"user_id"`
	DailySteps        importJSON `json:"daily_steps"`
	CyclingActivities importJSON `json:"cycling_activities"`
}

func (c sampleDataCommand) AfterApply() error {
	if c.Days < 1 || c.Days > 3650 {
		return usagef("--days: must be from 1 to 3650")
	}
	return nil
}

func (c sampleDataCommand) Run(p *program, api *operatorAPI) error {
	user, err := c.User.read(p, api)
	if err != nil {
		return err
	}
	result, err := api.activity.SampleData(p.ctx, user.UserId, c.Days, c.Seed)
	if err != nil {
		return err
	}
	value := sampleDataJSON{user.UserId, importJSON(result.DailySteps), importJSON(result.CyclingActivities)}
	return c.print(p, value, func(w io.Writer) {
		fmt.Fprintf(w, "daily steps\t%d days\n", result.DailySteps.Rows)
		fmt.Fprintf(w, "cycling activities\t%d rides\n", result.CyclingActivities.Rows)
	})
}
