package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverVersion is the newest of River's own migrations that 0013 applies, whichever River is built in. A later one is a
// migration of its own here.
const riverVersion = 8

// river has River make the tables of its job queue (https://riverqueue.com), each of its migrations in a transaction,
// since one uses what another one must have committed. River notes what it applied: where the process ends between, the
// next run goes on from there.
func river(number int64) *goose.Migration {
	return goose.NewGoMigration(number, &goose.GoFunc{RunDB: riverUp}, &goose.GoFunc{RunDB: riverDown})
}

func riverUp(ctx context.Context, db *sql.DB) error {
	for {
		applied, err := migrateRiver(ctx, db, rivermigrate.DirectionUp, rivermigrate.MigrateOpts{MaxSteps: 1})
		if err != nil || len(applied) == 0 || applied[0].Version >= riverVersion {
			return err
		}
	}
}

func riverDown(ctx context.Context, db *sql.DB) error {
	const all = -1 // its own table as well
	_, err := migrateRiver(ctx, db, rivermigrate.DirectionDown, rivermigrate.MigrateOpts{TargetVersion: all})
	return err
}

func migrateRiver(
	ctx context.Context, db *sql.DB, direction rivermigrate.Direction, opts rivermigrate.MigrateOpts,
) (applied []rivermigrate.MigrateVersion, err error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(nil), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	defer func() { _ = conn.Close() }()
	err = conn.Raw(func(driver any) error {
		return pgx.BeginFunc(ctx, driver.(*stdlib.Conn).Conn(), func(tx pgx.Tx) error {
			result, err := migrator.MigrateTx(ctx, tx, direction, &opts)
			if err == nil {
				applied = result.Versions
			}
			return err
		})
	})
	return applied, err
}
