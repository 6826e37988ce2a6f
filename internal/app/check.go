package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connect-svc/internal/postgres"
	"connect-svc/internal/postgres/citus"
	"connect-svc/internal/postgres/migrate"
	"connect-svc/internal/ratelimit"
	"connect-svc/internal/timelimit"
)

// maxClockDifference is far more than machines that keep the time differ by.
const maxClockDifference = 2 * time.Second

// lackingCommits asks the operator for a reconciliation.
const lackingCommits = "the database was restored, or a replica took over: what has ended since may be alive; " +
	"run connect-svc restore reconcile, see Backup and restore (docs/backup.md)"

// Skipped is the result of a check that cannot be made, or need not be. Its text says why.
type Skipped string

func (s Skipped) Error() string { return string(s) }

// Check tries everything that the service needs, and changes nothing. It reports each check with its name and with what was
// found, or with an error: [Skipped], or a problem. Fields of the configuration may be empty if their settings cannot be used.
func Check(ctx context.Context, c Config, report func(check, detail string, err error)) {
	for _, check := range []struct {
		name string
		run  func(context.Context) (string, error)
	}{
		{"certificate", func(context.Context) (string, error) { return checkCertificate(c.Certificate, c.BaseURL) }},
		{"private certificate", func(context.Context) (string, error) { return checkCertificate(c.PrivateCertificate, "") }},
		{"mail server", c.checkMail},
		{"rate limiter", c.checkLimiter},
		{"read replicas", c.checkReplicas},
	} {
		ctx, cancel := context.WithTimeout(ctx, timelimit.Default.Check)
		detail, err := check.run(ctx)
		cancel()
		report(check.name, detail, err)
	}
	c.checkDatabase(ctx, report)
}

func checkCertificate(read Certificate, baseURL string) (string, error) {
	if read == nil {
		return "", Skipped("none")
	}
	return "can be used by callers", CheckCertificate(read, baseURL)
}

func (c Config) checkMail(ctx context.Context) (string, error) {
	if c.Mailer == nil {
		return "", Skipped("its settings cannot be used")
	}
	return secured("takes a session", c.Mailer.Security(), c.Mailer.Check(ctx))
}

func (c Config) checkLimiter(ctx context.Context) (string, error) {
	if c.LimiterURL == "" {
		return "", Skipped("is in PostgreSQL")
	}
	store, err := ratelimit.OpenRedis(ctx, c.LimiterURL, timelimit.Default.Limiter)
	if err == nil {
		store.Close()
	}
	return secured("answers", ratelimit.RedisSecurity(c.LimiterURL), err)
}

func (c Config) checkReplicas(ctx context.Context) (string, error) {
	if c.ReadURL == "" {
		return "", Skipped("none")
	}
	pool, detail, err := connect(ctx, c.ReadURL, "one of them answers")
	if err == nil {
		pool.Close()
	}
	return detail, err
}

// connect opens a database to check it.
func connect(ctx context.Context, url, answers string) (pool *postgres.Pool, detail string, err error) {
	security, err := postgres.Security(url)
	if err != nil {
		return nil, "", err
	}
	pool, err = postgres.Open(ctx, url)
	detail, err = secured(answers, security, err)
	return pool, detail, err
}

// secured adds to the result of a check how the connection to the server is protected, also if the server does not answer.
func secured(detail, security string, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("%w; %s", err, security)
	}
	return detail + "; " + security, nil
}

// checkDatabase makes the checks that need a connection to the database.
func (c Config) checkDatabase(ctx context.Context, report func(check, detail string, err error)) {
	ctx, cancel := context.WithTimeout(ctx, timelimit.Default.Check)
	defer cancel()
	var pool *postgres.Pool
	detail, err := "", error(Skipped("its URL cannot be used"))
	if c.DatabaseURL != "" {
		pool, detail, err = connect(ctx, c.DatabaseURL, "answers")
	}
	report("database", detail, err)
	if err != nil {
		for _, check := range []string{"schema", "clock", "keyset"} {
			report(check, "", Skipped("no database"))
		}
		return
	}
	defer pool.Close()

	schema := CheckSchema(ctx, pool)
	report("schema", "is one that this program works on", schema)

	if schema == nil {
		if may, err := postgres.MayLackCommits(ctx, pool); may || err != nil {
			report("history", lackingCommits, err)
		}
		if cluster, err := citus.Check(ctx, pool); cluster || err != nil {
			report("cluster", "each node suits the service", err)
		}
	}

	detail, err = "", error(Skipped("no schema"))
	if schema == nil {
		var difference time.Duration
		difference, err = postgres.ClockDifference(ctx, pool)
		detail = fmt.Sprintf("the database's is %s ahead of this machine's", difference.Round(time.Millisecond))
		if err == nil && difference.Abs() > maxClockDifference {
			err = errors.New(detail)
		}
	}
	report("clock", detail, err)

	err = error(Skipped("no keyset, or no schema"))
	if schema == nil && c.Keys != nil {
		err = c.Keys.TryMarks(ctx, pool)
	}
	report("keyset", "is the database's", err)
}

// CheckSchema returns an error unless this program works on the database: the database has all migrations of this program, and none of
// a later program that removes something this program uses. A [migrate.Misfit] says what to do.
func CheckSchema(ctx context.Context, pool *postgres.Pool) error {
	schema, err := migrate.SchemaOf(ctx, pool)
	switch {
	case err != nil:
		return err
	case schema.Current < schema.Needed:
		return migrate.Misfit(fmt.Sprintf("the database is at migration %d and this program needs %d: run `connect-svc migrate up`",
			schema.Current, schema.Needed))
	case schema.Needed < schema.Oldest:
		return migrate.Misfit(fmt.Sprintf("the database is at migration %d, for programs that know %d or more, and this one knows %d: "+
			"run a newer program, or take migrations back with its `connect-svc migrate down`",
			schema.Current, schema.Oldest, schema.Needed))
	}
	return nil
}
