package main

import (
	"connect-svc/internal/app"
	"connect-svc/internal/postgres"
)

// databaseSetting is the one setting of the commands that work on the database.
type databaseSetting struct {
	DatabaseURL string `setting:"" placeholder:"URL" help:"PostgreSQL 15 or newer: postgres://user:password@host:port/name (required)."`
}

func (s databaseSetting) url() (string, error) {
	var c checks
	url := check(&c, "database-url", s.DatabaseURL, databaseURL)
	return url, c.first
}

// inDatabase connects, makes sure that the schema is the one that this program knows, and runs act.
func (s databaseSetting) inDatabase(p *program, act func(*postgres.Pool) error, opts ...postgres.Option) error {
	url, err := s.url()
	if err != nil {
		return err
	}
	pool, err := postgres.Open(p.ctx, url, opts...)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := app.CheckSchema(p.ctx, pool); err != nil {
		return err
	}
	return act(pool)
}
