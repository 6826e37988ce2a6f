package main

import (
	"fmt"
	"io"
	"net/http"

	"connect-svc/gen/operatorapi"
)

type usageCommand struct {
	output
	databaseSetting
	clientQuery
	Client *clientRef `xor:"which" placeholder:"UUID|NAME" help:"The client's id or name. Without it the usage of all is listed, in whole days."`
	Since  since      `default:"24h" placeholder:"TIME" help:"Start, in whole hours: a duration back from now (24h), a day in UTC (2026-11-20) or a time (2026-11-20T10:00:00Z). Counts are kept for 35 days."`
}

func (c usageCommand) Run(p *program, api *operatorAPI) error {
	if c.Client == nil {
		return c.list(p, rows(func(cursor *string) (*http.Response, error) {
			return api.ListUsage(p.ctx, &operatorapi.ListUsageParams{
				Since: c.Since.param(), Query: c.param(), Limit: new(pageRows), Cursor: cursor,
			})
		}), "client_id status name total.requests total.rate_limited total.refused total.failed total.p50_ms total.p99_ms connections.authorized")
	}
	report, err := decode[operatorapi.Usage](api.ReadClientUsage(p.ctx, c.Client.UUID, &operatorapi.ReadClientUsageParams{Since: c.Since.param()}))
	if err != nil {
		return err
	}
	return c.print(p, report, func(w io.Writer) { writeUsage(w, report) })
}

// connectionsText is how many connections a client has, for people.
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

func writeUsage(w io.Writer, value operatorapi.Usage) {
	fmt.Fprintf(w, "client\t%s\n", value.Name)
	fmt.Fprintf(w, "from, to\t%s, %s\n", value.Since, value.Until)
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
	figures("all", value.Total)
	heading(w, len(value.Hours), "HOUR (UTC)\t"+columns)
	for _, hour := range value.Hours {
		figures(hour.Hour, hour.Figures)
	}
}
