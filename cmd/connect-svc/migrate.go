package main

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/work"
	"connect-svc/migrations"
)

type migrateCommands struct {
	output
	databaseSetting
	Up     migrateUpCommand     `cmd:"" help:"Apply all pending migrations." example:"connect-svc migrate up --database-url postgres://connect@localhost/connect"`
	Down   migrateDownCommand   `cmd:"" help:"Roll back migrations, with their data." example:"connect-svc migrate down --to 1.0.0 --yes --database-url postgres://connect@localhost/connect"`
	Status migrateStatusCommand `cmd:"" help:"List migrations and when each was applied." example:"connect-svc migrate status --output json"`

	Distribute migrateDistributeCommand `cmd:"" help:"Distribute the tables across a Citus cluster." detail:"The database must be the cluster's coordinator. The service can keep running meanwhile." example:"connect-svc migrate distribute --shards 64 --database-url postgres://connect@coordinator/connect"`
}

type migrationJSON struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
}

type statusJSON struct {
	migrationJSON
	AppliedAt *time.Time `json:"applied_at"`
	Differs   bool       `json:"differs"` // the database was migrated with another file
}

type (
	migrateUpCommand   struct{}
	migrateDownCommand struct {
		To string `placeholder:"RELEASE" help:"Roll back every migration that this release lacks, such as 1.0.0 (default: the latest migration alone)."`
		confirmation
	}
	migrateStatusCommand struct{}
)

func (migrateUpCommand) Run(p *program, group *migrateCommands) error {
	return group.run(p, migrate.Up, "applied")
}

func (c migrateDownCommand) Run(p *program, group *migrateCommands) error {
	target, known := migrations.Releases[strings.TrimPrefix(c.To, "v")]
	if c.To != "" && !known {
		return usagef("--to: %q is not a release before this program (accepted: %s)", c.To, strings.Join(slices.Sorted(maps.Keys(migrations.Releases)), ", "))
	}
	applied, err := migrate.Applied(p.ctx, group.DatabaseURL)
	if err != nil {
		return err
	}
	if c.To == "" && len(applied) > 1 {
		target = applied[1].Version
	}
	var names []string
	for _, m := range applied {
		if m.Version > target {
			names = append(names, m.Name)
		}
	}
	if len(names) > 0 {
		if err := c.confirm(p, "roll back "+strings.Join(names, ", ")+" and destroy the data for which they added room"); err != nil {
			return err
		}
	}
	return group.run(p, migrate.Target(target), "rolled back")
}

func (c migrateCommands) run(p *program, target migrate.Target, done string) error {
	migrated, err := migrate.Apply(p.ctx, c.DatabaseURL, target)
	if err != nil {
		return err
	}
	result := postgres.Map(migrated, func(m migrate.Migration) migrationJSON { return migrationJSON{m.Version, m.Name} })
	return c.print(p, map[string]any{"migrated": result}, func(w io.Writer) {
		for _, m := range migrated {
			fmt.Fprintf(w, "%s\t%s\n", m.Name, done)
		}
		if len(migrated) == 0 {
			fmt.Fprintln(w, "nothing to do")
		}
	})
}

func (migrateStatusCommand) Run(p *program, group *migrateCommands) error {
	status, err := migrate.Status(p.ctx, group.DatabaseURL)
	if err != nil {
		return err
	}
	result := []statusJSON{}
	for _, m := range status {
		row := statusJSON{migrationJSON{m.Version, m.Name}, nil, m.Differs}
		if !m.AppliedAt.IsZero() {
			row.AppliedAt = new(m.AppliedAt.UTC())
		}
		result = append(result, row)
	}
	return group.print(p, result, func(w io.Writer) {
		fmt.Fprintln(w, "VERSION\tNAME\tAPPLIED")
		for _, m := range result {
			applied := "pending"
			if m.AppliedAt != nil {
				applied = m.AppliedAt.Format(time.RFC3339)
			}
			if m.Differs {
				applied += " (with another file)"
			}
			fmt.Fprintf(w, "%d\t%s\t%s\n", m.Version, m.Name, applied)
		}
	})
}

type migrateDistributeCommand struct {
	Shards int `default:"32" placeholder:"N" help:"Number of shards, 1 to 1024: several for each node you may ever have (default ${default})."`
}

type stepJSON struct {
	Step    string  `json:"step"`
	Seconds float64 `json:"seconds"`
}

func (c migrateDistributeCommand) Run(p *program, group *migrateCommands) error {
	if c.Shards < 1 || c.Shards > 1024 {
		return usagef("--shards: must be from 1 to 1024")
	}
	steps := []stepJSON{}
	if err := citus.Distribute(p.ctx, group.DatabaseURL, c.Shards, func(step string, took time.Duration) {
		steps = append(steps, stepJSON{step, took.Seconds()})
		if group.Output != "json" {
			fmt.Fprintf(p.stdout, "%8.3f s  %s\n", took.Seconds(), step)
		}
	}); err != nil {
		return err
	}
	return group.print(p, steps, func(w io.Writer) {
		if len(steps) == 0 {
			fmt.Fprintln(w, "nothing to do")
		}
	})
}

type restoreCommands struct {
	output
	databaseSetting
	Reconcile restoreReconcileCommand `cmd:"" unhurried:"" help:"Replay ends of connections that were lost." detail:"Run it before the servers start. It deletes users, offboards clients, and revokes and disconnects connections, as an audit log with later entries says; and it lets the refresh tokens of later authorizations work. It may be repeated: acts on what has changed since are skipped." example:"connect-svc restore reconcile --audit audit.json"`
}

type restoreReconcileCommand struct {
	settings.Replicas
	Audit string  `placeholder:"FILE" xor:"from" required:"" help:"The audit log: from audit list --output json, or as CSV from the console. - is standard input."`
	Since instant `placeholder:"TIME" xor:"from" required:"" help:"Read the audit log of the server at CONNECT_DATABASE_READ_URL, which has the lost commits, since this time: YYYY-MM-DD (UTC) or RFC 3339."`
}

func (c restoreReconcileCommand) Run(p *program, group *restoreCommands, api *operatorAPI) error {
	events, err := c.events(p)
	if err != nil {
		return err
	}
	done, err := app.Reconcile(p.ctx, api.pool, api.accounts, events)
	if err != nil {
		return err
	}
	return group.say(p, done, "read %d entries: deleted %d users, offboarded %d clients, revoked %d and disconnected %d connections, restored %d authorizations",
		done.Entries, done.Users, done.Clients, done.Revoked, done.Disconnected, done.Authorized)
}

// events reads the audit log that has the lost commits.
func (c restoreReconcileCommand) events(p *program) (iter.Seq2[audit.Event, error], error) {
	if c.Audit != "" {
		file, _, err := p.input(c.Audit)
		if err != nil {
			return nil, fmt.Errorf("--audit: %w", err)
		}
		p.atEnd = append(p.atEnd, func() { _ = file.Close() })
		return audit.ReadExport(file), nil
	}
	if c.DatabaseReadURL == "" {
		return nil, usagef("--since: CONNECT_DATABASE_READ_URL must name the server whose audit log is read")
	}
	pool, err := postgres.Open(p.ctx, c.DatabaseReadURL, postgres.WithoutStatementTimeout())
	if err != nil {
		return nil, err
	}
	p.atEnd = append(p.atEnd, pool.Close)
	log := audit.New(pool, work.DefaultLimits, 0)
	return func(yield func(audit.Event, error) bool) {
		for before := (page.Key{}); ; {
			entries, err := log.Search(p.ctx, audit.Filter{Since: c.Since.Time}, before, pageRows)
			for _, event := range entries.Events {
				if !yield(event, nil) {
					return
				}
			}
			if err != nil {
				yield(audit.Event{}, err)
			}
			if before = entries.Next; err != nil || before == (page.Key{}) {
				return
			}
		}
	}, nil
}
