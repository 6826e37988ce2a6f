package main

import (
	"fmt"
	"io"

	"github.com/google/uuid"

	"connect-svc/internal/activity"
)

type adjustCommands struct {
	output
	databaseSetting
	Steps   adjustStepsCommand   `cmd:"" help:"Correct a day's steps." example:"connect-svc adjust steps --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --date 2026-01-31 --delta -500 --note 'device on a swing'"`
	Cycling adjustCyclingCommand `cmd:"" help:"Correct a day's cycling distance." example:"connect-svc adjust cycling --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --date 2026-01-31 --delta-meters 1200 --note 'tunnel'"`
}

// adjustment has the flags of both commands.
type adjustment struct {
	User uuid.UUID `required:"" placeholder:"UUID" help:"The user's id."`
	Date date      `required:"" placeholder:"YYYY-MM-DD" help:"The recorded date. A correction does not create a record where there is none."`
	Note string    `required:"" help:"The reason, for the record."`
}

type adjustStepsCommand struct {
	adjustment
	Delta int `required:"" placeholder:"N" help:"Steps to add; negative to subtract."`
}

func (c adjustStepsCommand) Run(p *program, group *adjustCommands) error {
	return group.run(p, "steps", c.adjustment, c.Delta, func(data *activity.Store) (uuid.UUID, error) {
		return data.AdjustSteps(p.ctx, c.User, c.Date.Time, c.Delta, c.Note)
	})
}

type adjustCyclingCommand struct {
	adjustment
	DeltaMeters int `required:"" placeholder:"N" help:"Metres to add; negative to subtract."`
}

func (c adjustCyclingCommand) Run(p *program, group *adjustCommands) error {
	return group.run(p, "metres", c.adjustment, c.DeltaMeters, func(data *activity.Store) (uuid.UUID, error) {
		return data.AdjustCycling(p.ctx, c.User, c.Date.Time, c.DeltaMeters, c.Note)
	})
}

type adjustmentJSON struct {
	UserID uuid.UUID `json:"user_id"`
	ID     uuid.UUID `json:"adjustment_id"` // names it when it is to be removed
	Date   string    `json:"date"`
	Delta  int       `json:"delta"`
	Note   string    `json:"note"`
}

func (c adjustCommands) run(p *program, unit string, a adjustment, delta int, act func(*activity.Store) (uuid.UUID, error)) error {
	return inActivity(p, c.databaseSetting, func(data *activity.Store) error {
		id, err := act(data)
		if err != nil {
			return err
		}
		result := adjustmentJSON{a.User, id, a.Date.String(), delta, a.Note}
		return c.print(p, result, func(w io.Writer) {
			fmt.Fprintf(w, "%+d %s on %s: adjustment %s\n", delta, unit, result.Date, id)
		})
	})
}
