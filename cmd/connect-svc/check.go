package main

import (
	"errors"
	"fmt"
	"io"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/telemetry"
)

type checkCommand struct {
	output
	app.Config
}

type checkResult struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, failed or skipped
	Detail string `json:"detail"`
}

// Run makes all checks whose settings can be used.
func (c *checkCommand) Run(p *program, source *settings.Source) error {
	for _, name := range source.Unknown() {
		source.Problems = append(source.Problems, fmt.Errorf("%s is not a setting of this program", name))
	}
	if err := telemetry.CheckTraces(); err != nil {
		source.Problems = append(source.Problems, err)
	}
	var results []checkResult
	add := func(check, detail string, err error) {
		result := checkResult{check, "ok", detail}
		switch skipped, ok := errors.AsType[app.Skipped](err); {
		case ok:
			result.Status, result.Detail = "skipped", skipped.Error()
		case err != nil:
			result.Status, result.Detail = "failed", oneLine(err)
		}
		results = append(results, result)
	}
	for _, problem := range source.Problems {
		add("setting", "", problem)
	}
	if len(source.Problems) == 0 {
		add("setting", "all can be used", nil)
	}
	app.Check(p.ctx, c.Config, add)

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
	case len(source.Problems) > 0:
		return usagef("%d of %d checks failed", failed, len(results))
	case failed > 0:
		return fmt.Errorf("%d of %d checks failed", failed, len(results))
	}
	return nil
}
