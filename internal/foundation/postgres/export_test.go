package postgres

import "github.com/jackc/pgx/v5/pgxpool"

// ConfigOf is how a pool connects.
func ConfigOf(p *Pool) *pgxpool.Config { return p.conns.Config() }
