package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/activity"
	"connect-svc/internal/app"
	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/postgres"
	"connect-svc/internal/timelimit"
	"connect-svc/internal/usage"
	"connect-svc/internal/webhook"
)

// databaseSetting is the one setting of the commands that work on the database. Their Run has a [*database] among its parameters,
// or one that is [unhurried].
type databaseSetting struct {
	DatabaseURLFile string `setting:"" type:"secret file" name:"database-url-file" placeholder:"FILE" help:"A file with the database URL in it."`
	DatabaseURL     string `setting:"required" type:"database" placeholder:"URL" help:"PostgreSQL 15 or newer: postgres://user:password@host:port/name (required)."`
}

// database is one that this program can work on, with the domains on it. It is closed when the command is done.
type database struct{ *postgres.Pool }

// unhurried is a database whose statements take the time that they need.
type unhurried struct{ *database }

// ProvideDatabase makes kong connect before it calls Run.
func (s databaseSetting) ProvideDatabase(p *program) (*database, error) { return s.open(p) }

// ProvideUnhurried is the same without a limit for statements.
func (s databaseSetting) ProvideUnhurried(p *program) (unhurried, error) {
	db, err := s.open(p, postgres.WithoutStatementTimeout())
	return unhurried{db}, err
}

func (s databaseSetting) open(p *program, opts ...postgres.Option) (*database, error) {
	pool, err := postgres.Open(p.ctx, s.DatabaseURL, opts...)
	if err != nil {
		return nil, err
	}
	p.atEnd = append(p.atEnd, pool.Close)
	return &database{pool}, app.CheckSchema(p.ctx, pool)
}

// accounts have neither keys nor a mailer: no command here seals anything or sends mail.
func (d *database) accounts() *account.Accounts {
	return account.New(d.Pool, nil, nil, account.Settings{
		EndConnections: oauth.EndConnectionsOfUser, EndRequests: oauth.EndRequestsOfUsers,
	})
}

// user is one by id. An error names the id.
func (d *database) user(p *program, id uuid.UUID) (account.User, error) {
	user, err := d.accounts().GetUser(p.ctx, id)
	if err != nil {
		return user, fmt.Errorf("user %s: %w", id, err)
	}
	return user, nil
}

func (d *database) clients() *client.Registry {
	return client.NewRegistry(d.Pool, oauth.EndConnectionsOfClient)
}

func (d *database) connections() *oauth.Server { return oauth.New(d.Pool, nil, oauth.Settings{}) }

// activity has no keys, because no command makes a cursor or an id that partners see.
func (d *database) activity() *activity.Store {
	return activity.New(d.Pool, nil, activity.Settings{})
}

func (d *database) usage() *usage.Usage {
	return usage.New(d.Pool, timelimit.Default, slog.New(slog.DiscardHandler), time.Now)
}

// webhooks neither seal nor open a signing secret.
func (d *database) webhooks() *webhook.Webhooks { return webhook.New(d.Pool, nil, webhook.Settings{}) }

// sealing are webhooks with the keyset of the service, which must be the database's; nil: none is needed.
func (d *database) sealing(p *program, keys *credential.Keyring, settings webhook.Settings) (*webhook.Webhooks, error) {
	if keys == nil {
		return d.webhooks(), nil
	}
	return webhook.New(d.Pool, keys, settings), keys.CheckMarks(p.ctx, d.Pool)
}
