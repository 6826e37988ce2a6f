package main

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"connect-svc/internal/activity"
	"connect-svc/internal/refusal"
)

type removeCommands struct {
	output
	databaseSetting
	Steps      removeStepsCommand      `cmd:"" help:"Remove a day's recorded steps." detail:"The corrections of the day stay, and count again when it is recorded anew." example:"connect-svc remove steps --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --date 2026-01-31 --yes"`
	Ride       removeRideCommand       `cmd:"" help:"Remove a cycling activity." example:"connect-svc remove ride --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --source-id ride-20260131-1 --yes"`
	Adjustment removeAdjustmentCommand `cmd:"" help:"Remove a correction of steps or of cycling distance." detail:"Its id is what the command adjust printed, or what the operator API was sent." example:"connect-svc remove adjustment --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --id 51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02 --yes"`
}

// removal has the flags of all of them.
type removal struct {
	confirmation
	User uuid.UUID `required:"" placeholder:"UUID" help:"The user's id."`
}

type removeStepsCommand struct {
	removal
	Date date `required:"" placeholder:"YYYY-MM-DD" help:"The recorded date."`
}

func (c removeStepsCommand) Run(p *program, group *removeCommands, db unhurried) error {
	return group.run(p, c.removal, "the steps of "+c.Date.String(), func() (int64, error) {
		result, err := db.activity().Put(p.ctx, activity.Batch{
			DailyStepsRemovals: []activity.StepsRemoval{{UserID: c.User, Date: c.Date.Time}},
		})
		return result.DailyStepsRemovals.Removed, err
	})
}

type removeRideCommand struct {
	removal
	SourceID string `required:"" placeholder:"ID" help:"The name that the source gave the ride."`
}

func (c removeRideCommand) Run(p *program, group *removeCommands, db unhurried) error {
	return group.run(p, c.removal, "the ride "+c.SourceID, func() (int64, error) {
		result, err := db.activity().Put(p.ctx, activity.Batch{
			Removals: []activity.RideRemoval{{UserID: c.User, SourceID: c.SourceID}},
		})
		return result.Removals.Removed, err
	})
}

type removeAdjustmentCommand struct {
	removal
	ID uuid.UUID `required:"" placeholder:"UUID" help:"The adjustment's id."`
}

func (c removeAdjustmentCommand) Run(p *program, group *removeCommands, db unhurried) error {
	return group.run(p, c.removal, "the adjustment "+c.ID.String(), func() (removed int64, err error) {
		for _, dataset := range []activity.Adjusted{activity.AdjustedSteps, activity.AdjustedCycling} {
			found, err := db.activity().RemoveAdjustment(p.ctx, dataset, c.User, c.ID)
			if err != nil {
				return removed, err
			}
			if found {
				removed++
			}
		}
		return removed, nil
	})
}

type removedJSON struct {
	Removed int64 `json:"removed"`
}

// run has act remove something, once that is confirmed, and count it.
func (c removeCommands) run(p *program, of removal, what string, act func() (removed int64, err error)) error {
	if err := of.confirm(p, fmt.Sprintf("remove %s of user %s", what, of.User)); err != nil {
		return err
	}
	removed, err := act()
	if bad := (activity.BatchError)(nil); errors.As(err, &bad) && !errors.Is(err, refusal.ErrUserNotFound) {
		return usagef("%s %w", bad[0].Column, bad[0].Err)
	}
	if errors.Is(err, refusal.ErrUserNotFound) {
		return fmt.Errorf("user %s: %w", of.User, refusal.ErrUserNotFound)
	}
	if err != nil {
		return err
	}
	if removed == 0 {
		return fmt.Errorf("user %s has not %s", of.User, what)
	}
	return c.say(p, removedJSON{removed}, "removed %s", what)
}
