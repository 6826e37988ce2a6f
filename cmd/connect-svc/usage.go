package main

import (
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/api/operator"
	"connect-svc/internal/usage"
)

type usageCommand struct {
	output
	databaseSetting
	Client uuid.UUID `required:"" placeholder:"ID" help:"The client's id."`
	Since  since     `default:"24h" placeholder:"TIME" help:"Start, in whole hours: a duration back from now (24h), a day in UTC (2026-11-20) or a time (2026-11-20T10:00:00Z). Counts are kept for 35 days."`
}

type operationUsageJSON struct {
	Operation string `json:"operation"`
	operatorapi.Figures
}

type hourUsageJSON struct {
	Hour time.Time `json:"hour"`
	operatorapi.Figures
	BusiestMinute int64                `json:"busiest_minute"`
	Operations    []operationUsageJSON `json:"operations"`
}

// connectionsText is for people.
func connectionsText(c operatorapi.ConnectionCounts) string {
	counts := fmt.Sprintf("%d authorized, %d lapsed, %d revoked, %d disconnected", c.Authorized, c.Lapsed, c.Revoked, c.Disconnected)
	switch c.Precision {
	case operatorapi.ConnectionCountsPrecisionEstimated:
		return "about " + counts
	case operatorapi.ConnectionCountsPrecisionAtLeast:
		return "at least " + counts
	case operatorapi.ConnectionCountsPrecisionUnknown:
		return "too many to count in time"
	}
	return counts
}

// usageJSON has the figures and counts of the operator API.
type usageJSON struct {
	ClientID          uuid.UUID `json:"client_id"`
	Name              string    `json:"name"`
	Since             time.Time `json:"since"`
	Until             time.Time `json:"until"`
	RequestsPerMinute int       `json:"requests_per_minute"`
	BudgetUsed        float64   `json:"budget_used"`
	PeakBudgetUsed    float64   `json:"peak_budget_used"`
	operatorapi.Figures
	Operations  []operationUsageJSON         `json:"operations"`
	Hours       []hourUsageJSON              `json:"hours"` // those with requests
	Connections operatorapi.ConnectionCounts `json:"connections"`
}

func (c usageCommand) Run(p *program, db *database) error {
	report, err := db.usage().Of(p.ctx, c.Client, c.Since.Time)
	if err != nil {
		return err
	}
	value := toUsageJSON(report)
	return c.print(p, value, func(w io.Writer) { writeUsage(w, value) })
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
		Figures:           operator.FiguresBody(report.Total),
		Operations:        []operationUsageJSON{},
		Hours:             []hourUsageJSON{},
		Connections:       operator.CountsBody(report.Connections),
	}
	for _, operation := range report.Operations {
		value.Operations = append(value.Operations, operationUsageJSON{operation.Name, operator.FiguresBody(operation.Total)})
	}
	for i, hour := range report.Hours {
		if hour.Requests == 0 {
			continue
		}
		row := hourUsageJSON{hour.Start, operator.FiguresBody(hour.Figures), hour.BusiestMinute, nil}
		for _, operation := range report.Operations {
			if figures := operation.Hours[i]; figures.Requests > 0 {
				row.Operations = append(row.Operations, operationUsageJSON{operation.Name, operator.FiguresBody(figures)})
			}
		}
		value.Hours = append(value.Hours, row)
	}
	return value
}

func writeUsage(w io.Writer, value usageJSON) {
	fmt.Fprintf(w, "client\t%s\n", value.Name)
	fmt.Fprintf(w, "from, to\t%s, %s\n", value.Since.Format(time.RFC3339), value.Until.Format(time.RFC3339))
	fmt.Fprintf(w, "connections\t%s\n", connectionsText(value.Connections))
	fmt.Fprintf(w, "budget used\t%.1f %% of %d requests a minute; %.1f %% in the busiest minute\n",
		100*value.BudgetUsed, value.RequestsPerMinute, 100*value.PeakBudgetUsed)
	figures := func(name string, f operatorapi.Figures) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f %%\t%d\t%d\t%.1f ms\t%.1f ms\n", name, f.Requests, f.RateLimited,
			100*f.RateLimitedShare, f.Refused, f.Failed, f.P50Ms, f.P99Ms)
	}
	const columns = "REQUESTS\t429\t429 SHARE\tOTHER 4XX\t5XX\tP50\tP99"
	fmt.Fprintln(w, "\nOPERATION\t"+columns)
	for _, operation := range value.Operations {
		figures(operation.Operation, operation.Figures)
	}
	figures("all", value.Figures)
	if len(value.Hours) > 0 {
		fmt.Fprintln(w, "\nHOUR (UTC)\t"+columns)
	}
	for _, hour := range value.Hours {
		figures(hour.Hour.Format("2006-01-02 15:04"), hour.Figures)
	}
}
