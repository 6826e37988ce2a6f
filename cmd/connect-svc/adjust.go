package main

import (
	"github.com/google/uuid"
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

func (c adjustStepsCommand) Run(p *program, group *adjustCommands, db unhurried) error {
	id, err := db.activity().AdjustSteps(p.ctx, c.User, c.Date.Time, c.Delta, c.Note)
	return group.show(p, id, err, "steps", c.adjustment, c.Delta)
}

type adjustCyclingCommand struct {
	adjustment
	DeltaMeters int `required:"" placeholder:"N" help:"Metres to add; negative to subtract."`
}

func (c adjustCyclingCommand) Run(p *program, group *adjustCommands, db unhurried) error {
	id, err := db.activity().AdjustCycling(p.ctx, c.User, c.Date.Time, c.DeltaMeters, c.Note)
	return group.show(p, id, err, "metres", c.adjustment, c.DeltaMeters)
}

type adjustmentJSON struct {
	UserID uuid.UUID `json:"user_id"`
	ID     uuid.UUID `json:"adjustment_id"` // names it when it is to be removed
	Date   string    `json:"date"`
	Delta  int       `json:"delta"`
	Note   string    `json:"note"`
}

// show says what became of an adjustment.
func (c adjustCommands) show(p *program, id uuid.UUID, err error, unit string, a adjustment, delta int) error {
	if err != nil {
		return err
	}
	result := adjustmentJSON{a.User, id, a.Date.String(), delta, a.Note}
	return c.say(p, result, "%+d %s on %s: adjustment %s", delta, unit, result.Date, id)
}
