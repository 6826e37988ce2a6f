package main

import (
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/usage"
)

type usageCommand struct {
	output
	databaseSetting
	Client uuid.UUID `required:"" placeholder:"ID" help:"The client's id."`
	Since  since     `default:"24h" placeholder:"TIME" help:"Start, in whole hours: a duration back from now (24h), a day in UTC (2026-11-20) or a time (2026-11-20T10:00:00Z). Counts are kept for 35 days."`
}

type figuresJSON struct {
	Requests         int64   `json:"requests"`
	RateLimited      int64   `json:"rate_limited"`
	RateLimitedShare float64 `json:"rate_limited_share"`
	Refused          int64   `json:"refused"`
	Failed           int64   `json:"failed"`
	P50Milliseconds  float64 `json:"p50_ms"`
	P99Milliseconds  float64 `json:"p99_ms"`
}

type operationUsageJSON struct {
	Operation string `json:"operation"`
	figuresJSON
}

type hourUsageJSON struct {
	Hour time.Time `json:"hour"`
	figuresJSON
	BusiestMinute int64                `json:"busiest_minute"`
	Operations    []operationUsageJSON `json:"operations"`
}

type connectionsJSON struct {
	// Precision is exact, estimated (from a sample), at_least, or unknown, where they could not be counted in time.
	Precision    string `json:"precision"`
	Authorized   int64  `json:"authorized"`
	Lapsed       int64  `json:"lapsed"`
	Revoked      int64  `json:"revoked"`
	Disconnected int64  `json:"disconnected"`
}

// String is for people.
func (c connectionsJSON) String() string {
	counts := fmt.Sprintf("%d authorized, %d lapsed, %d revoked, %d disconnected", c.Authorized, c.Lapsed, c.Revoked, c.Disconnected)
	switch c.Precision {
	case usage.Estimated.String():
		return "about " + counts
	case usage.AtLeast.String():
		return "at least " + counts
	case usage.Unknown.String():
		return "too many to count in time"
	}
	return counts
}

type usageJSON struct {
	ClientID          uuid.UUID `json:"client_id"`
	Name              string    `json:"name"`
	Since             time.Time `json:"since"`
	Until             time.Time `json:"until"`
	RequestsPerMinute int       `json:"requests_per_minute"`
	BudgetUsed        float64   `json:"budget_used"`
	PeakBudgetUsed    float64   `json:"peak_budget_used"`
	figuresJSON
	Operations  []operationUsageJSON `json:"operations"`
	Hours       []hourUsageJSON      `json:"hours"` // those with requests
	Connections connectionsJSON      `json:"connections"`
}

func (c usageCommand) Run(p *program, db *database) error {
	report, err := db.usage().Of(p.ctx, c.Client, c.Since.Time)
	if err != nil {
		return err
	}
	value := toUsageJSON(report)
	return c.print(p, value, func(w io.Writer) { writeUsage(w, value) })
}

func toFiguresJSON(f usage.Figures) figuresJSON {
	milliseconds := func(d time.Duration) float64 {
		return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
	}
	return figuresJSON{f.Requests, f.RateLimited, f.RateLimitedShare(), f.Refused, f.Failed,
		milliseconds(f.Quantile(.5)), milliseconds(f.Quantile(.99))}
}

func toUsageJSON(report usage.Report) usageJSON {
	value := usageJSON{
		ClientID:          report.ClientID,
		Name:              report.Name,
		Since:             report.Since,
		Until:             report.Until.Truncate(time.Second),
		RequestsPerMinute: report.RequestsPerMinute,
		BudgetUsed:        report.BudgetUsed(),
		PeakBudgetUsed:    report.PeakBudgetUsed(),
		figuresJSON:       toFiguresJSON(report.Total),
		Operations:        []operationUsageJSON{},
		Hours:             []hourUsageJSON{},
		Connections: connectionsJSON{
			Precision:    report.Connections.Precision.String(),
			Authorized:   report.Connections.Authorized,
			Lapsed:       report.Connections.Lapsed,
			Revoked:      report.Connections.Revoked,
			Disconnected: report.Connections.Disconnected,
		},
	}
	for _, operation := range report.Operations {
		value.Operations = append(value.Operations, operationUsageJSON{operation.Name, toFiguresJSON(operation.Total)})
	}
	for i, hour := range report.Hours {
		if hour.Requests == 0 {
			continue
		}
		row := hourUsageJSON{hour.Start, toFiguresJSON(hour.Figures), hour.BusiestMinute, nil}
		for _, operation := range report.Operations {
			if figures := operation.Hours[i]; figures.Requests > 0 {
				row.Operations = append(row.Operations, operationUsageJSON{operation.Name, toFiguresJSON(figures)})
			}
		}
		value.Hours = append(value.Hours, row)
	}
	return value
}

func writeUsage(w io.Writer, value usageJSON) {
	fmt.Fprintf(w, "client\t%s\n", value.Name)
	fmt.Fprintf(w, "from, to\t%s, %s\n", value.Since.Format(time.RFC3339), value.Until.Format(time.RFC3339))
	fmt.Fprintf(w, "connections\t%s\n", value.Connections)
	fmt.Fprintf(w, "budget used\t%.1f %% of %d requests a minute; %.1f %% in the busiest minute\n",
		100*value.BudgetUsed, value.RequestsPerMinute, 100*value.PeakBudgetUsed)
	figures := func(name string, f figuresJSON) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f %%\t%d\t%d\t%.1f ms\t%.1f ms\n", name, f.Requests, f.RateLimited,
			100*f.RateLimitedShare, f.Refused, f.Failed, f.P50Milliseconds, f.P99Milliseconds)
	}
	const columns = "REQUESTS\t429\t429 SHARE\tOTHER 4XX\t5XX\tP50\tP99"
	fmt.Fprintln(w, "\nOPERATION\t"+columns)
	for _, operation := range value.Operations {
		figures(operation.Operation, operation.figuresJSON)
	}
	figures("all", value.figuresJSON)
	if len(value.Hours) > 0 {
		fmt.Fprintln(w, "\nHOUR (UTC)\t"+columns)
	}
	for _, hour := range value.Hours {
		figures(hour.Hour.Format("2006-01-02 15:04"), hour.figuresJSON)
	}
}
