package main

import (
	"fmt"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
)

type removeCommands struct {
	output
	databaseSetting
	Steps      removeStepsCommand      `cmd:"" unhurried:"" help:"Remove a day's recorded steps." detail:"The corrections of the day stay, and count again if it is recorded anew." example:"connect-svc remove steps --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --date 2026-01-31 --yes"`
	Ride       removeRideCommand       `cmd:"" unhurried:"" help:"Remove a cycling activity." example:"connect-svc remove ride --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --source-id ride-20260131-1 --yes"`
	Adjustment removeAdjustmentCommand `cmd:"" unhurried:"" help:"Remove a correction of steps or of cycling distance." detail:"Its id is what the command adjust printed, or what the operator API was sent." example:"connect-svc remove adjustment --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --id 51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02 --yes"`
}

type removal struct {
	confirmation
	User userOrEmail `required:"" placeholder:"UUID|EMAIL" help:"The user's id or e-mail address."`
}

type removeStepsCommand struct {
	removal
	Date date `required:"" placeholder:"YYYY-MM-DD" help:"The recorded date."`
}

func (c removeStepsCommand) Run(p *program, group *removeCommands, api *operatorAPI) error {
	return group.run(p, api, c.removal, "the steps of "+c.Date.String(), func(user uuid.UUID) (operatorapi.Removed, error) {
		result, err := decode[operatorapi.ActivityBatchResult](api.PutActivity(p.ctx, operatorapi.ActivityBatch{
			DailyStepsRemovals: []operatorapi.StepsRemovalRow{{UserId: user, Date: c.Date.Date}},
		}))
		return result.DailyStepsRemovals, err
	})
}

type removeRideCommand struct {
	removal
	SourceID string `required:"" placeholder:"ID" help:"The name that the source gave the ride."`
}

func (c removeRideCommand) Run(p *program, group *removeCommands, api *operatorAPI) error {
	return group.run(p, api, c.removal, "the ride "+c.SourceID, func(user uuid.UUID) (operatorapi.Removed, error) {
		result, err := decode[operatorapi.ActivityBatchResult](api.PutActivity(p.ctx, operatorapi.ActivityBatch{
			Removals: []operatorapi.RemovalRow{{UserId: user, SourceId: c.SourceID}},
		}))
		return result.Removals, err
	})
}

type removeAdjustmentCommand struct {
	removal
	ID uuid.UUID `required:"" placeholder:"UUID" help:"The adjustment's id."`
}

func (c removeAdjustmentCommand) Run(p *program, group *removeCommands, api *operatorAPI) error {
	return group.run(p, api, c.removal, "the adjustment "+c.ID.String(), func(user uuid.UUID) (operatorapi.Removed, error) {
		return decode[operatorapi.Removed](api.RemoveAdjustment(p.ctx, user, c.ID))
	})
}

// run has act remove something of a user, once that is confirmed.
func (c removeCommands) run(
	p *program, api *operatorAPI, of removal, what string, act func(user uuid.UUID) (operatorapi.Removed, error),
) error {
	user, err := of.User.read(p, api)
	if err != nil {
		return err
	}
	if err := of.confirm(p, fmt.Sprintf("remove %s of user %s (%s)", what, user.UserId, user.Email)); err != nil {
		return err
	}
	result, err := act(user.UserId)
	if err != nil {
		return err
	}
	if result.Removed == 0 {
		return fmt.Errorf("user %s has not %s", user.UserId, what)
	}
	return c.say(p, result, "removed %s", what)
}
