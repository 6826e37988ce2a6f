package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/postgres"
	"connect-svc/internal/ratelimit"
	"connect-svc/internal/timelimit"
)

// maxClockDifference is far more than machines that keep the time differ by.
const maxClockDifference = 2 * time.Second

type checkCommand struct {
	output
	serviceSettings
}

// checkResult is what came of one check.
type checkResult struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, failed or skipped
	Detail string `json:"detail"`
}

// errSkip is returned by a check that cannot be made, or need not be. Its text says why.
type errSkip string

func (e errSkip) Error() string { return string(e) }

// Run makes all checks whose settings can be used.
func (c *checkCommand) Run(p *program, from *source) error {
	var results []checkResult
	add := func(check, detail string, err error) {
		result := checkResult{check, "ok", detail}
		var skip errSkip
		switch {
		case errors.As(err, &skip):
			result.Status, result.Detail = "skipped", skip.Error()
		case err != nil:
			result.Status, result.Detail = "failed", oneLine(err)
		}
		results = append(results, result)
	}
	for _, problem := range from.problems {
		add("setting", "", problem)
	}
	if len(from.problems) == 0 {
		add("setting", "all can be used", nil)
	}
	for _, check := range []struct {
		name string
		run  func(context.Context) (string, error)
	}{
		{"certificate", func(context.Context) (string, error) { return checkCertificate(c.config.Certificate, c.config.BaseURL) }},
		{"private certificate", func(context.Context) (string, error) { return checkCertificate(c.config.PrivateCertificate, "") }},
		{"mail server", c.checkMail},
		{"rate limiter", c.checkLimiter},
		{"read replicas", c.checkReplicas},
	} {
		ctx, cancel := context.WithTimeout(p.ctx, timelimit.Default.Check)
		detail, err := check.run(ctx)
		cancel()
		add(check.name, detail, err)
	}
	c.checkDatabase(p.ctx, add)

	failed := 0
	for _, result := range results {
		if result.Status == "failed" {
			failed++
		}
	}
	if err := c.print(p, struct {
		OK     bool          `json:"ok"`
		Checks []checkResult `json:"checks"`
	}{failed == 0, results}, func(w io.Writer) {
		for _, result := range results {
			fmt.Fprintf(w, "%s\t%s\t%s\n", result.Check, result.Status, result.Detail)
		}
	}); err != nil {
		return err
	}
	switch {
	case len(from.problems) > 0:
		return usagef("%d of %d checks failed", failed, len(results))
	case failed > 0:
		return fmt.Errorf("%d of %d checks failed", failed, len(results))
	}
	return nil
}

func checkCertificate(read app.Certificate, baseURL string) (string, error) {
	if read == nil {
		return "", errSkip("none")
	}
	return "can be used by callers", app.CheckCertificate(read, baseURL)
}

func (c *checkCommand) checkMail(ctx context.Context) (string, error) {
	if c.config.Mailer == nil {
		return "", errSkip("its settings cannot be used")
	}
	return "takes a session; " + c.config.Mailer.Security(), c.config.Mailer.Check(ctx)
}

func (c *checkCommand) checkLimiter(ctx context.Context) (string, error) {
	if c.LimiterURL == "" {
		return "", errSkip("is in PostgreSQL")
	}
	store, err := ratelimit.OpenRedis(ctx, c.LimiterURL, timelimit.Default.Limiter)
	if err != nil {
		return "", err
	}
	store.Close()
	return "answers; " + ratelimit.RedisSecurity(c.LimiterURL), nil
}

func (c *checkCommand) checkReplicas(ctx context.Context) (string, error) {
	if c.DatabaseReadURL == "" {
		return "", errSkip("none")
	}
	pool, err := postgres.Open(ctx, c.DatabaseReadURL)
	if err != nil {
		return "", err
	}
	pool.Close()
	security, err := postgres.Security(c.DatabaseReadURL)
	return "one of them answers; " + security, err
}

// checkDatabase makes the checks that need a connection to the database.
func (c *checkCommand) checkDatabase(ctx context.Context, add func(check, detail string, err error)) {
	ctx, cancel := context.WithTimeout(ctx, timelimit.Default.Check)
	defer cancel()
	var pool *postgres.Pool
	security, err := "", error(errSkip("its URL cannot be used"))
	if c.DatabaseURL != "" {
		if security, err = postgres.Security(c.DatabaseURL); err == nil {
			pool, err = postgres.Open(ctx, c.DatabaseURL)
		}
	}
	add("database", "answers; "+security, err)
	if err != nil {
		for _, check := range []string{"schema", "clock", "keyset"} {
			add(check, "", errSkip("no database"))
		}
		return
	}
	defer pool.Close()

	schema := app.CheckSchema(ctx, pool)
	add("schema", "is one that this program works on", schema)

	detail, err := "", error(errSkip("no schema"))
	if schema == nil {
		var difference time.Duration
		difference, err = postgres.ClockDifference(ctx, pool)
		detail = fmt.Sprintf("the database's is %s ahead of this machine's", difference.Round(time.Millisecond))
		if err == nil && difference.Abs() > maxClockDifference {
			err = errors.New(detail)
		}
	}
	add("clock", detail, err)

	err = error(errSkip("no keyset, or no schema"))
	if schema == nil && c.KeysetFile != nil {
		err = c.KeysetFile.TryMarks(ctx, pool)
	}
	add("keyset", "is the database's", err)
}
