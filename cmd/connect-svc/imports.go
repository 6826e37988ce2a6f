package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"connect-svc/internal/activity"
	"connect-svc/internal/intake"
)

type importCommands struct {
	output
	databaseSetting
	Users             importUsersCommand `cmd:"" help:"Create and change users." detail:"The CSV file has the header user_id,email,timezone,registered_on. A user_id that is known changes that user, another one creates a user with this id, and an empty one creates a user with a new id." example:"connect-svc import users users.csv"`
	DailySteps        importStepsCommand `cmd:"" help:"Import daily step totals." detail:"The CSV file has the header user_id,date,steps." example:"connect-svc import daily-steps steps.csv"`
	CyclingActivities importRidesCommand `cmd:"" help:"Import cycling activities." detail:"The CSV file has the header user_id,source_id,recorded_start_time,recorded_end_time,distance_meters." example:"connect-svc import cycling-activities rides.csv"`
}

type importJSON struct {
	Rows      int64 `json:"rows"`
	Inserted  int64 `json:"inserted"`
	Updated   int64 `json:"updated"`
	Unchanged int64 `json:"unchanged"`
	Skipped   int64 `json:"skipped"` // of unknown users
}

// importFile is the argument of all imports.
type importFile struct {
	File string `arg:"" help:"The file, or - for standard input."`
}

type importUsersCommand struct{ importFile }

func (c importUsersCommand) Run(p *program, group *importCommands, db unhurried) error {
	return group.run(p, c.importFile, func(file io.Reader, progress func(intake.Progress)) (importJSON, error) {
		result, err := db.accounts().ImportUsers(p.ctx, file, progress)
		return importJSON(result), err
	})
}

// activityFile has the flags of the imports of activity.
type activityFile struct {
	importFile
	SkipUnknown string `placeholder:"FILE" help:"Pass over rows of unknown users, and write them to this file."`
}

type importStepsCommand struct{ activityFile }

func (c importStepsCommand) Run(p *program, group *importCommands, db unhurried) error {
	return c.run(p, group, db, activity.DailyStepsColumns(), (*activity.Store).ImportDailySteps)
}

type importRidesCommand struct{ activityFile }

func (c importRidesCommand) Run(p *program, group *importCommands, db unhurried) error {
	return c.run(p, group, db, activity.CyclingActivitiesColumns(), (*activity.Store).ImportCyclingActivities)
}

type importer func(*activity.Store, context.Context, io.Reader, activity.ImportOptions) (activity.Result, error)

func (c activityFile) run(p *program, group *importCommands, db unhurried, header []string, take importer) error {
	return group.run(p, c.importFile, func(file io.Reader, progress func(intake.Progress)) (importJSON, error) {
		options := activity.ImportOptions{Progress: progress}
		if c.SkipUnknown == "" {
			result, err := take(db.activity(), p.ctx, file, options)
			return importJSON(result), err
		}
		skipped, err := newSkippedRows(c.SkipUnknown, c.File, header)
		if err != nil {
			return importJSON{}, err
		}
		defer skipped.discard()
		options.SkipUnknown = skipped.Write
		result, err := take(db.activity(), p.ctx, file, options)
		if err != nil {
			return importJSON{}, err
		}
		return importJSON(result), skipped.keep()
	})
}

// run imports a file with take, and says what became of it.
func (c importCommands) run(p *program, from importFile, take func(io.Reader, func(intake.Progress)) (importJSON, error)) error {
	file, size, err := p.input(from.File)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer file.Close()
	show, finish := p.progress(size)
	result, err := take(file, show)
	finish()
	if err != nil && p.ctx.Err() != nil {
		return errors.New("import: stopped; nothing was imported")
	}
	if err != nil {
		return err
	}
	return c.print(p, result, func(w io.Writer) {
		fmt.Fprintf(w, "imported %s: %d new, %d changed, %d unchanged", count(result.Rows-result.Skipped, "row"),
			result.Inserted, result.Updated, result.Unchanged)
		if result.Skipped > 0 {
			fmt.Fprintf(w, "; %s of unknown users skipped", count(result.Skipped, "row"))
		}
		fmt.Fprintln(w)
	})
}

// skippedRows writes rows that are not imported to a file, which is there, with its header, when the import is done, and before as
// it was.
type skippedRows struct {
	*csv.Writer
	file *os.File
	name string
}

func newSkippedRows(name, source string, header []string) (*skippedRows, error) {
	if there, err := os.Stat(name); err == nil {
		if input, err := os.Stat(source); err == nil && os.SameFile(there, input) {
			return nil, usagef("--skip-unknown: must not be the file that is imported")
		}
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".skipped-*.csv")
	if err != nil {
		return nil, fmt.Errorf("--skip-unknown: %w", err)
	}
	rows := &skippedRows{csv.NewWriter(file), file, name}
	return rows, rows.Write(header)
}

// keep gives the file its name.
func (r *skippedRows) keep() error {
	r.Flush()
	err := errors.Join(r.Error(), r.file.Close())
	if err == nil {
		err = os.Rename(r.file.Name(), r.name)
	}
	if err != nil {
		return fmt.Errorf("the other rows are imported, but those of unknown users cannot be written: %w", err)
	}
	return nil
}

// discard removes what keep has not kept.
func (r *skippedRows) discard() {
	_ = r.file.Close()
	_ = os.Remove(r.file.Name())
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
		return f, -1, nil
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

// progress shows how far an import of size bytes is, with its rate and the time that remains, if standard error is a
// terminal: first reading its bytes, then storing its rows. finish removes the display.
func (p *program) progress(size int64) (show func(intake.Progress), finish func()) {
	screen, isFile := p.stderr.(*os.File)
	if !isFile || !term.IsTerminal(int(screen.Fd())) {
		return nil, func() {}
	}
	return showProgress(screen, size)
}

// A display that fails does not stop the import.
func showProgress(screen io.Writer, size int64) (show func(intake.Progress), finish func()) {
	newBar := func(size int64, options ...progressbar.Option) *progressbar.ProgressBar {
		return progressbar.NewOptions64(size, append(options,
			progressbar.OptionSetWriter(screen),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
		)...)
	}
	bar, storing := newBar(size, progressbar.OptionShowBytes(true)), false
	show = func(done intake.Progress) {
		if !done.Storing {
			bar.Describe(fmt.Sprintf("reading row %d", done.Rows))
			_ = bar.Set64(done.Bytes)
			return
		}
		if !storing {
			storing = true
			_ = bar.Clear()
			bar = newBar(done.Rows, progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionShowCount())
			bar.Describe("storing rows")
		}
		_ = bar.Set64(done.Stored)
	}
	return show, func() { _ = bar.Clear() }
}
