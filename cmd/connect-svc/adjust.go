package main

import (
	"net/http"

	"connect-svc/gen/operatorapi"
)

type adjustCommands struct {
	output
	databaseSetting
	Steps   adjustStepsCommand   `cmd:"" unhurried:"" help:"Correct a day's steps." example:"connect-svc adjust steps --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --date 2026-01-31 --delta -500 --note 'device on a swing'"`
	Cycling adjustCyclingCommand `cmd:"" unhurried:"" help:"Correct a day's cycling distance." example:"connect-svc adjust cycling --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --date 2026-01-31 --delta-meters 1200 --note 'tunnel'"`
	List    adjustListCommand    `cmd:"" help:"List a user's corrections, by date." example:"connect-svc adjust list --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10"`
}

type adjustListCommand struct {
	User userOrEmail `required:"" placeholder:"UUID|EMAIL" help:"The user's id or e-mail address."`
}

func (c adjustListCommand) Run(p *program, group *adjustCommands, api *operatorAPI) error {
	user, err := c.User.read(p, api)
	if err != nil {
		return err
	}
	return group.list(p, rows(func(cursor *string) (*http.Response, error) {
		return api.ListAdjustments(p.ctx, user.UserId, &operatorapi.ListAdjustmentsParams{Limit: new(pageRows), Cursor: cursor})
	}), "date dataset delta adjustment_id created_at note")
}

// adjustment has the flags of the commands that correct.
type adjustment struct {
	User userOrEmail `required:"" placeholder:"UUID|EMAIL" help:"The user's id or e-mail address."`
	Date date        `required:"" placeholder:"YYYY-MM-DD" help:"The recorded date. A correction does not create a record where there is none."`
	Note string      `required:"" help:"The reason, for the record."`
}

type adjustStepsCommand struct {
	adjustment
	Delta int32 `required:"" placeholder:"N" help:"Steps to add; negative to subtract."`
}

func (c adjustStepsCommand) Run(p *program, group *adjustCommands, api *operatorAPI) error {
	return group.run(p, api, c.adjustment, operatorapi.AdjustedDatasetDailySteps, c.Delta, "steps")
}

type adjustCyclingCommand struct {
	adjustment
	DeltaMeters int32 `required:"" aliases:"delta" placeholder:"N" help:"Metres to add; negative to subtract."`
}

func (c adjustCyclingCommand) Run(p *program, group *adjustCommands, api *operatorAPI) error {
	return group.run(p, api, c.adjustment, operatorapi.AdjustedDatasetCyclingDaily, c.DeltaMeters, "metres")
}

func (c adjustCommands) run(
	p *program, api *operatorAPI, of adjustment, dataset operatorapi.AdjustedDataset, delta int32, unit string,
) error {
	user, err := of.User.read(p, api)
	if err != nil {
		return err
	}
	made, err := decode[operatorapi.Adjustment](api.CreateAdjustment(p.ctx, user.UserId, operatorapi.NewAdjustment{
		Dataset: dataset, Date: of.Date.Date, Delta: delta, Note: of.Note,
	}))
	if err != nil {
		return err
	}
	return c.say(p, made, "%+d %s on %s: adjustment %s", delta, unit, of.Date, made.AdjustmentId)
}
