package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
)

type importCommands struct {
	output
	databaseSetting
	Users             importUsersCommand `cmd:"" unhurried:"" help:"Create and change users." detail:"The CSV file has the header user_id,email,timezone,registered_on. A user_id that is known changes that user, another one creates a user with this id, and an empty one creates a user with a new id. A former name of a time zone is stored as the present one." example:"connect-svc import users users.csv"`
	DailySteps        importStepsCommand `cmd:"" unhurried:"" help:"Import daily step totals." detail:"The CSV file has the header user_id,date,steps or user_id,date,steps,observed_at. observed_at is empty or an RFC 3339 instant: a row that was observed before the stored one is not taken, and counted as outdated." example:"connect-svc import daily-steps steps.csv"`
	CyclingActivities importRidesCommand `cmd:"" unhurried:"" help:"Import cycling activities." detail:"The CSV file has the header user_id,source_id,recorded_start_time,recorded_end_time,distance_meters, and observed_at after it if it is wanted: see import daily-steps." example:"connect-svc import cycling-activities rides.csv"`
}

type importJSON struct {
	Rows      int64 `json:"rows"`
	Inserted  int64 `json:"inserted"`
	Updated   int64 `json:"updated"`
	Unchanged int64 `json:"unchanged"`
	Skipped   int64 `json:"skipped"`  // of unknown users
	Outdated  int64 `json:"outdated"` // observed before what is stored
}

type importFile struct {
	File string `arg:"" help:"The file, or - for standard input."`
}

type importUsersCommand struct {
	importFile
	settings.OptionalMailServer
}

func (c importUsersCommand) Run(p *program, group *importCommands, api *operatorAPI) error {
	return group.run(p, c.importFile, func(file io.Reader, progress func(intake.Progress)) (importJSON, error) {
		result, err := api.accounts.ImportUsers(p.ctx, file, progress)
		return importJSON(result), err
	})
}

// activityFile has the flags of the imports of activity.
type activityFile struct {
	importFile
	activity.History
	SkipUnknown string `placeholder:"FILE" help:"Pass over rows of unknown users, and write them to this file."`
}

type importStepsCommand struct{ activityFile }

func (c importStepsCommand) Run(p *program, group *importCommands, api *operatorAPI) error {
	return c.run(p, group, api, (*activity.Store).ImportDailySteps)
}

type importRidesCommand struct{ activityFile }

func (c importRidesCommand) Run(p *program, group *importCommands, api *operatorAPI) error {
	return c.run(p, group, api, (*activity.Store).ImportCyclingActivities)
}

func (c activityFile) run(
	p *program, group *importCommands, api *operatorAPI,
	take func(*activity.Store, context.Context, io.Reader, activity.ImportOptions) (activity.Result, error),
) error {
	return group.run(p, c.importFile, func(file io.Reader, progress func(intake.Progress)) (importJSON, error) {
		options, keep := activity.ImportOptions{Progress: progress, History: c.History}, func() error { return nil }
		if c.SkipUnknown != "" {
			skipped, err := intake.NewSkippedRows(c.SkipUnknown, c.File)
			if errors.Is(err, intake.ErrSameFile) {
				err = usageError{err}
			}
			if err != nil {
				return importJSON{}, fmt.Errorf("--skip-unknown: %w", err)
			}
			defer skipped.Discard()
			options.SkipUnknown, keep = skipped.Write, skipped.Keep
		}
		result, err := take(api.activity, p.ctx, file, options)
		if err == nil {
			err = keep()
		}
		return importJSON(result), err
	})
}

// run imports a file with take, and prints the result.
func (c importCommands) run(p *program, source importFile, take func(io.Reader, func(intake.Progress)) (importJSON, error)) error {
	file, size, err := p.input(source.File)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer file.Close()
	var show func(intake.Progress)
	finish := func() {}
	if isTerminal(p.stderr) {
		show, finish = intake.ShowProgress(p.stderr, size)
	}
	result, err := take(file, show)
	finish()
	switch {
	case errors.Is(err, postgres.ErrInDoubt):
		return errors.New("import: stopped while it was committed; the file may have been imported")
	case err != nil && p.ctx.Err() != nil:
		return errors.New("import: stopped; nothing was imported")
	case err != nil:
		return err
	}
	return c.print(p, result, func(w io.Writer) {
		fmt.Fprintf(w, "imported %s: %d new, %d changed, %d unchanged", count(result.Rows-result.Skipped, "row"),
			result.Inserted, result.Updated, result.Unchanged)
		if result.Outdated > 0 {
			fmt.Fprintf(w, ", %d outdated", result.Outdated)
		}
		if result.Skipped > 0 {
			fmt.Fprintf(w, "; %s of unknown users skipped", count(result.Skipped, "row"))
		}
		fmt.Fprintln(w)
	})
}

// input opens a file to import, or standard input for "-". It returns its size in bytes too, or -1 if that is unknown.
func (p *program) input(file string) (io.ReadCloser, int64, error) {
	if file == "-" {
		return interruptible(p.ctx, p.stdin), -1, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return interruptible(p.ctx, f), -1, nil // such as a pipe that stalls
	}
	return f, info.Size(), nil
}

// interruptible stops reading when ctx ends, even from a source that sends nothing: a terminal, or a pipe that stalls.
func interruptible(ctx context.Context, source io.Reader) io.ReadCloser {
	reader, writer := io.Pipe()
	context.AfterFunc(ctx, func() { writer.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(writer, source)
		writer.CloseWithError(err)
	}()
	return reader
}
