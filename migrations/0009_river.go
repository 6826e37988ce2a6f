package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverVersion is the newest of River's own migrations that 0009 applies, whichever River is built in. A later one is a
// migration of its own here.
const riverVersion = 8

// river has River make the tables of its job queue (https://riverqueue.com), each of its migrations in a transaction,
// since one uses what another one must have committed. River notes what it applied: where the process ends between, the
// next run goes on from there.
func river(number int64) *goose.Migration {
	return goose.NewGoMigration(number, &goose.GoFunc{RunDB: riverUp}, &goose.GoFunc{RunDB: riverDown})
}

func riverUp(ctx context.Context, db *sql.DB) error {
	err := withRiver(ctx, db, func(migrator *rivermigrate.Migrator[pgx.Tx]) error {
		applied, err := migrator.ExistingVersions(ctx)
		if err != nil || len(applied) >= riverVersion {
			return err
		}
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{TargetVersion: riverVersion})
		return err
	})
	if err != nil {
		return err
	}
	// River's lists can be searched by the contents of arguments and metadata. Nobody here does, and the two indexes for it
	// are most of what a change of a job's state costs, of which each delivery has several.
	if _, err := db.ExecContext(ctx, "drop index if exists river_job_args_index, river_job_metadata_index"); err != nil {
		return fmt.Errorf("river: %w", err)
	}
	return nil
}

func riverDown(ctx context.Context, db *sql.DB) error {
	return withRiver(ctx, db, func(migrator *rivermigrate.Migrator[pgx.Tx]) error {
		const all = -1 // its own table as well
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: all})
		return err
	})
}

// withRiver lends River's migrator a pool that connects as db does.
func withRiver(ctx context.Context, db *sql.DB, act func(*rivermigrate.Migrator[pgx.Tx]) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(driver any) error {
		connection := driver.(*stdlib.Conn).Conn().Config()
		config, err := pgxpool.ParseConfig(connection.ConnString())
		if err != nil {
			return fmt.Errorf("river: %w", err)
		}
		config.ConnConfig = connection
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return fmt.Errorf("river: %w", err)
		}
		defer pool.Close()
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return fmt.Errorf("river: %w", err)
		}
		return act(migrator)
	})
}
