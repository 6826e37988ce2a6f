package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connect-svc/internal/activity"
	"connect-svc/internal/postgres"
)

type importCommands struct {
	output
	databaseSetting
	DailySteps        importStepsCommand `cmd:"" help:"Import daily step totals." detail:"The CSV file has the header user_id,date,steps." example:"connect-svc import daily-steps steps.csv"`
	CyclingActivities importRidesCommand `cmd:"" help:"Import cycling activities." detail:"The CSV file has the header user_id,source_id,recorded_start_time,recorded_end_time,distance_meters." example:"connect-svc import cycling-activities rides.csv"`
}

type importJSON struct {
	Rows      int64 `json:"rows"`
	Inserted  int64 `json:"inserted"`
	Updated   int64 `json:"updated"`
	Unchanged int64 `json:"unchanged"`
}

// importFile is the argument of both imports.
type importFile struct {
	File string `arg:"" help:"The file, or - for standard input."`
}

type importStepsCommand struct{ importFile }

func (c importStepsCommand) Run(p *program, group *importCommands) error {
	return group.run(p, c.File, (*activity.Store).ImportDailySteps)
}

type importRidesCommand struct{ importFile }

func (c importRidesCommand) Run(p *program, group *importCommands) error {
	return group.run(p, c.File, (*activity.Store).ImportCyclingActivities)
}

type importer func(*activity.Store, context.Context, io.Reader, func(activity.Progress)) (activity.Result, error)

func (c importCommands) run(p *program, name string, take importer) error {
	return inActivity(p, c.databaseSetting, func(data *activity.Store) error {
		file, size, err := p.input(name)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		defer file.Close()
		show, finish := p.progress(size)
		result, err := take(data, p.ctx, file, show)
		finish()
		if err != nil && p.ctx.Err() != nil {
			return errors.New("import: stopped; nothing was imported")
		}
		if err != nil {
			return err
		}
		return c.print(p, importJSON(result), func(w io.Writer) {
			fmt.Fprintf(w, "imported %s: %d new, %d changed, %d unchanged\n",
				count(result.Rows, "row"), result.Inserted, result.Updated, result.Unchanged)
		})
	})
}

// inActivity runs act with the recorded activity in the database. It has no keys, because no command makes a cursor or
// an id that partners see.
func inActivity(p *program, database databaseSetting, act func(*activity.Store) error) error {
	return database.inDatabase(p, func(pool *postgres.Pool) error {
		return act(activity.New(pool, nil, activity.Settings{}))
	}, postgres.WithoutStatementTimeout())
}
