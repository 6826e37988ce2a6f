package main

import (
	"connect-svc/internal/app"
	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
)

// databaseSetting is the one setting of the commands that work on the database.
type databaseSetting struct {
	DatabaseURLFile string `setting:"" type:"secret file" name:"database-url-file" placeholder:"FILE" help:"A file with the database URL in it."`
	DatabaseURL     string `setting:"required" type:"database" placeholder:"URL" help:"PostgreSQL 15 or newer: postgres://user:password@host:port/name (required)."`
}

// inDatabase connects, checks that this program can work on the schema, and runs act.
func (s databaseSetting) inDatabase(p *program, act func(*postgres.Pool) error, opts ...postgres.Option) error {
	pool, err := postgres.Open(p.ctx, s.DatabaseURL, opts...)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := app.CheckSchema(p.ctx, pool); err != nil {
		return err
	}
	return act(pool)
}

// withKeyset is inDatabase for what also seals or opens, with the keyset of the service.
func (s databaseSetting) withKeyset(p *program, keys *credential.Keyring, act func(*postgres.Pool) error) error {
	return s.inDatabase(p, func(pool *postgres.Pool) error {
		if err := postgres.CheckKeyset(p.ctx, pool, keys); err != nil {
			return err
		}
		return act(pool)
	})
}
