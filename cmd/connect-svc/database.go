package main

import (
	"connect-svc/internal/account"
	"connect-svc/internal/activity"
	"connect-svc/internal/app"
	"connect-svc/internal/oauth"
	"connect-svc/internal/postgres"
	"connect-svc/internal/settings"
)

// databaseSetting is the setting of the commands that work on the database. Their Run has among its parameters an [*operatorAPI]
// or, for acts outside the operator API, a [*database]; or one of the two that is unhurried.
type databaseSetting struct {
	settings.Database
}

// database is one that this program can work on. It is closed when the command is done.
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

// activity has no keys, because no command makes a cursor or an id that partners see.
func (d *database) activity() *activity.Store {
	return activity.New(d.Pool, nil, activity.Settings{})
}
