package main

import (
	"fmt"
	"iter"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

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
			found, err := log.Search(p.ctx, audit.Filter{Since: c.Since.Time}, before, pageRows)
			for _, event := range found.Events {
				if !yield(event, nil) {
					return
				}
			}
			if err != nil {
				yield(audit.Event{}, err)
			}
			if before = found.Next; err != nil || before == (page.Key{}) {
				return
			}
		}
	}, nil
}
