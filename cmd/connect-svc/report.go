package main

import (
	"fmt"
	"io"

	"connect-svc/gen/operatorapi"
)

type reportCommand struct {
	output
	databaseSetting
	Client *clientRef `placeholder:"UUID|NAME" help:"Only this client; otherwise all together."`
	Since  since      `default:"30d" placeholder:"TIME" help:"The first day, in UTC: a duration back from now (30d), or a day (2026-11-20). Days are kept for 400 days."`
}

func (c reportCommand) Run(p *program, api *operatorAPI) error {
	report, err := decode[operatorapi.Report](api.ReadReport(p.ctx, &operatorapi.ReadReportParams{Since: c.Since.param(), ClientId: c.Client.id()}))
	if err != nil {
		return err
	}
	return c.print(p, report, func(w io.Writer) { writeReport(w, report) })
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
