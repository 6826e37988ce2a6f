package main

import (
	"fmt"
	"io"

	"connect-svc/gen/operatorapi"
)

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

func writeReport(w io.Writer, report operatorapi.Report) {
	name := "all clients"
	if report.Name != nil {
		name = printable(*report.Name)
	}
	f := report.Total
	fmt.Fprintf(w, "report of\t%s\n", name)
	fmt.Fprintf(w, "days\t%s to %s\n", report.Since, report.Until)
	fmt.Fprintf(w, "connections\t%s\n", connectionsText(f.Connections))
	fmt.Fprintf(w, "made, refreshed, lapsed\t%d, %d, %d\n", f.ConnectionsMade, f.Refreshed, f.Lapsed)
	fmt.Fprintf(w, "revoked\t%d by the client, %d replayed, %d by an operator\n", f.Revoked.ByClient, f.Revoked.Replayed, f.Revoked.ByOperator)
	fmt.Fprintf(w, "disconnected\t%d by the user, %d by the client, %d by an operator, %d with the account, %d with the client\n",
		f.Disconnected.ByUser, f.Disconnected.ByClient, f.Disconnected.ByOperator, f.Disconnected.WithAccount, f.Disconnected.WithClient)
	fmt.Fprintf(w, "active on the busiest day\t%d users, %d clients\n", f.ActiveUsers, f.ActiveClients)
	fmt.Fprintf(w, "requests\t%d, %d of them 429, %d other 4xx, %d 5xx; p50 %.1f ms, p99 %.1f ms\n", f.Requests.Requests, f.Requests.RateLimited,
		f.Requests.Refused, f.Requests.Failed, f.Requests.P50Ms, f.Requests.P99Ms)
	fmt.Fprintf(w, "sign-in codes\t%d sent, %d tried\n", f.CodesSent, f.CodesTried)
	fmt.Fprintf(w, "webhooks\t%d delivered, %d given up\n", f.WebhooksDelivered, f.WebhooksFailed)
	fmt.Fprintln(w, "\nDAY (UTC)\tMADE\tREFRESHED\tLAPSED\tREVOKED\tDISCONNECTED\tUSERS\tREQUESTS\t429\t5XX\tP99\tCODES\tWEBHOOKS\tGIVEN UP")
	for _, day := range report.Days {
		f := day.Figures
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f ms\t%d\t%d\t%d\n", day.Day, f.ConnectionsMade, f.Refreshed, f.Lapsed,
			f.Revoked.ByClient+f.Revoked.Replayed+f.Revoked.ByOperator,
			f.Disconnected.ByUser+f.Disconnected.ByClient+f.Disconnected.ByOperator+f.Disconnected.WithAccount+f.Disconnected.WithClient,
			f.ActiveUsers, f.Requests.Requests, f.Requests.RateLimited, f.Requests.Failed, f.Requests.P99Ms, f.CodesSent, f.WebhooksDelivered, f.WebhooksFailed)
	}
}
