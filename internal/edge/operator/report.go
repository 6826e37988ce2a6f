package operator

import (
	"context"
	"time"

	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/foundation/page"
)

// ListUsage lists the usage of all clients.
func (h handlers) ListUsage(
	ctx context.Context, request operatorapi.ListUsageRequestObject,
) (operatorapi.ListUsageResponseObject, error) {
	since, err := h.sinceOr(request.Params.Since, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	query := request.Params.Query
	found, err := h.Clients.Search(ctx, orZero(query))
	if err != nil {
		return nil, err
	}
	rows, next, err := page.Read(page.List{
		Name: "usage", Filters: []*string{request.Params.Since, query}, Limit: request.Params.Limit, Cursor: request.Params.Cursor,
	}, func(after page.Key, limit int) ([]usage.Report, error) {
		return h.Usage.Clients(ctx, found, since, after, limit)
	}, usage.Report.Key)
	return operatorapi.ListUsage200JSONResponse{Data: each(rows, clientUsageBody), NextCursor: next}, err
}

// sinceOr returns the given instant, or by default the one that is so long ago.
func (h handlers) sinceOr(text *operatorapi.GivenInstant, ago time.Duration) (time.Time, error) {
	since, err := given(text)
	if err == nil && since.IsZero() {
		since = h.Now().Add(-ago)
	}
	return since, err
}

// orZero returns the value of a parameter, or the zero value if it was not given.
func orZero[T any](parameter *T) (value T) {
	if parameter != nil {
		value = *parameter
	}
	return value
}

func clientUsageBody(r usage.Report) operatorapi.ClientUsage {
	return operatorapi.ClientUsage{
		ClientId: r.ClientID, Name: r.Name, Status: operatorapi.ClientUsageStatus(r.Status), RequestsPerMinute: int32(r.RequestsPerMinute),
		PeakBudgetUsed: r.PeakBudgetUsed(), Total: figuresBody(r.Total), Connections: countsBody(r.Connections),
	}
}

// ReadReport reports by day what happened, to one client or in all.
func (h handlers) ReadReport(
	ctx context.Context, request operatorapi.ReadReportRequestObject,
) (operatorapi.ReadReportResponseObject, error) {
	since, err := h.sinceOr(request.Params.Since, 30*24*time.Hour)
	if err != nil {
		return nil, err
	}
	report, err := h.Usage.DaysOf(ctx, orZero(request.Params.ClientId), since)
	if err != nil {
		return nil, err
	}
	body := operatorapi.Report{Total: reportFigures(report.Total), Days: each(report.Days, func(day usage.Day) operatorapi.ReportDay {
		return operatorapi.ReportDay{Day: openapi_types.Date{Time: day.Day}, Figures: reportFigures(day)}
	})}
	body.Since, body.Until = body.Days[0].Day, body.Days[len(body.Days)-1].Day
	if report.ClientID != uuid.Nil {
		body.ClientId, body.Name = new(report.ClientID.String()), &report.Name
	}
	return operatorapi.ReadReport200JSONResponse(body), nil
}

func reportFigures(d usage.Day) (f operatorapi.ReportFigures) {
	f.ConnectionsMade, f.Refreshed, f.Lapsed = d.Authorized, d.Refreshed, d.Lapsed
	f.Revoked.ByClient, f.Revoked.Replayed, f.Revoked.ByOperator = d.Revoked, d.Replayed, d.RevokedByOperator
	f.Disconnected.ByUser, f.Disconnected.ByClient, f.Disconnected.ByOperator = d.DisconnectedByUser, d.DisconnectedByClient, d.DisconnectedByOperator
	f.Disconnected.WithAccount, f.Disconnected.WithClient = d.DisconnectedWithAccount, d.DisconnectedWithClient
	f.ActiveUsers, f.ActiveClients, f.Requests = d.ActiveUsers, d.ActiveClients, figuresBody(d.Figures())
	f.CodesSent, f.CodesTried = d.CodesSent, d.CodesTried
	f.WebhooksDelivered, f.WebhooksFailed = d.WebhooksDelivered, d.WebhooksFailed
	f.Connections = countsBody(d.Connections())
	return f
}
