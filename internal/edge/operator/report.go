package operator

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"
)

// ListUsage lists the usage of all clients.
func (h handlers) ListUsage(ctx context.Context, request operatorapi.ListUsageRequestObject) (operatorapi.ListUsageResponseObject, error) {
	since, err := h.sinceOr(request.Params.Since, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	query := request.Params.Query
	ids, err := h.Clients.Search(ctx, client.Filter{Query: orZero(query)})
	if err != nil {
		return nil, err
	}
	rows, next, err := page.Read(page.List{
		Name: "usage", Filters: []*string{request.Params.Since, query}, Limit: request.Params.Limit, Cursor: request.Params.Cursor,
	}, func(after page.Key, limit int) ([]usage.Report, error) {
		return h.Usage.Clients(ctx, usage.Ranking{Found: ids}, since, after, limit)
	}, usage.Report.Key)
	return operatorapi.ListUsage200JSONResponse{NextCursor: next, Data: each(rows, func(r usage.Report) operatorapi.ClientUsage {
		return operatorapi.ClientUsage{
			ClientId: r.ClientID, Name: r.Name, Status: operatorapi.ClientUsageStatus(r.Status), RequestsPerMinute: int32(r.RequestsPerMinute),
			PeakBudgetUsed: r.PeakBudgetUsed(), Total: figuresBody(r.Total), Connections: countsBody(r.Connections),
		}
	})}, err
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

// isNil reports whether a parameter is the nil UUID. Nothing has this id, and the domains would take it for no filter.
func isNil(id *uuid.UUID) bool { return id != nil && *id == uuid.Nil }

// ReadReport reports by day what happened, to one client or in all.
func (h handlers) ReadReport(ctx context.Context, request operatorapi.ReadReportRequestObject) (operatorapi.ReadReportResponseObject, error) {
	since, err := h.sinceOr(request.Params.Since, 30*24*time.Hour)
	if err != nil {
		return nil, err
	}
	if isNil(request.Params.ClientId) {
		return nil, refusal.ErrClientNotFound
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

// ListClientErrors lists a client's refused requests.
func (h handlers) ListClientErrors(
	ctx context.Context, request operatorapi.ListClientErrorsRequestObject,
) (operatorapi.ListClientErrorsResponseObject, error) {
	filter := usage.ErrorFilter{Operation: orZero(request.Params.Operation), Code: orZero(request.Params.Code), GrantID: orZero(request.Params.GrantId)}
	rows, next, err := page.Read(page.List{
		Name: "client errors", Filters: []any{request.ClientId, filter}, Limit: request.Params.Limit, Cursor: request.Params.Cursor,
	}, func(after page.Key, limit int) ([]usage.ClientError, error) {
		if isNil(request.Params.GrantId) {
			return nil, nil
		}
		return h.Usage.Errors(ctx, request.ClientId, filter, after, limit)
	}, usage.ClientError.Key)
	if err != nil {
		return nil, err
	}
	kinds, err := h.Usage.ErrorCounts(ctx, request.ClientId)
	return operatorapi.ListClientErrors200JSONResponse{NextCursor: next, Data: each(rows, func(e usage.ClientError) operatorapi.ClientError {
		return operatorapi.ClientError{
			At: instant(e.At), Operation: e.Operation, Status: int32(e.Status), Code: e.Code, Reason: e.Reason,
			Authenticated: e.Authenticated, Requests: e.Requests, RequestIds: e.RequestIDs, GrantIds: e.GrantIDs,
		}
	}), Kinds: each(kinds, func(k usage.ErrorCount) operatorapi.ClientErrorKind {
		return operatorapi.ClientErrorKind{
			Authenticated: k.Authenticated, Operation: k.Operation, Status: int32(k.Status), Code: k.Code, Requests: k.Requests, Listed: k.Listed, //nolint:gosec // of HTTP
			LastAt: instant(k.LastAt), ListedSince: instantOrNull(k.ListedSince),
		}
	})}, err
}

// ListEndedConnections lists the ends of a client's connections.
func (h handlers) ListEndedConnections(
	ctx context.Context, request operatorapi.ListEndedConnectionsRequestObject,
) (operatorapi.ListEndedConnectionsResponseObject, error) {
	if _, err := h.Clients.Get(ctx, request.ClientId); err != nil {
		return nil, err
	}
	params := request.Params
	filter := audit.Filter{ClientID: request.ClientId, Ends: true, End: string(orZero(params.Reason))}
	var since, until error
	filter.Since, since = given(params.Since)
	filter.Until, until = given(params.Until)
	if err := cmp.Or(since, until); err != nil {
		return nil, err
	}
	rows, next, err := page.Search(page.List{Name: "ended connections", Filters: filter, Limit: params.Limit, Cursor: params.Cursor},
		func(before page.Key, limit int) ([]audit.Event, page.Key, error) {
			ends, err := h.Audit.Search(ctx, filter, before, limit)
			return ends.Events, ends.Next, err
		})
	if err != nil {
		return nil, err
	}
	grants, err := h.OAuth.Grants(ctx, request.ClientId, each(rows, func(e audit.Event) uuid.UUID { return e.UserID }))
	return operatorapi.ListEndedConnections200JSONResponse{NextCursor: next, Data: each(rows, func(e audit.Event) operatorapi.EndedConnection {
		return operatorapi.EndedConnection{
			At: instant(e.EndedAt()), Reason: operatorapi.EndReason(e.End), UserId: e.UserID, GrantId: orNull(grants[e.UserID]),
			ConnectionVersion: strconv.FormatInt(e.EndedVersion(), 10),
		}
	})}, err
}

// ReadClientUsage reports a client's requests and connections.
func (h handlers) ReadClientUsage(
	ctx context.Context, request operatorapi.ReadClientUsageRequestObject,
) (operatorapi.ReadClientUsageResponseObject, error) {
	since, err := h.sinceOr(request.Params.Since, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	report, err := h.Usage.Of(ctx, request.ClientId, since)
	return operatorapi.ReadClientUsage200JSONResponse(usageBody(report)), err
}

func usageBody(r usage.Report) operatorapi.Usage {
	body := operatorapi.Usage{
		ClientId:          r.ClientID,
		Name:              r.Name,
		Since:             instant(r.Since),
		Until:             instant(r.Until),
		RequestsPerMinute: int32(r.RequestsPerMinute),
		BudgetUsed:        r.BudgetUsed(),
		PeakBudgetUsed:    r.PeakBudgetUsed(),
		Requests:          r.Total.Requests,
		RateLimited:       r.Total.RateLimited,
		Refused:           r.Total.Refused,
		Failed:            r.Total.Failed,
		Total:             figuresBody(r.Total),
		Operations: each(r.Operations, func(o usage.Operation) operatorapi.OperationUsage {
			return operatorapi.OperationUsage{Operation: o.Name, Figures: figuresBody(o.Total)}
		}),
		Hours:       []operatorapi.HourUsage{},
		Connections: countsBody(r.Connections),
	}
	for i, hour := range r.Hours {
		if hour.Requests == 0 {
			continue
		}
		row := operatorapi.HourUsage{Hour: instant(hour.Start), Figures: figuresBody(hour.Figures), BusiestMinute: hour.BusiestMinute}
		for _, o := range r.Operations {
			if figures := o.Hours[i]; figures.Requests > 0 {
				row.Operations = append(row.Operations, operatorapi.OperationUsage{Operation: o.Name, Figures: figuresBody(figures)})
			}
		}
		body.Hours = append(body.Hours, row)
	}
	return body
}

func countsBody(c usage.Connections) operatorapi.ConnectionCounts {
	return operatorapi.ConnectionCounts{
		Precision:    operatorapi.ConnectionCountsPrecision(c.Precision.String()),
		Authorized:   c.Authorized,
		Lapsed:       c.Lapsed,
		Revoked:      c.Revoked,
		Disconnected: c.Disconnected,
	}
}

func figuresBody(f usage.Figures) operatorapi.Figures {
	milliseconds := func(q float64) float64 {
		return float64(f.Quantile(q).Round(100*time.Microsecond)) / float64(time.Millisecond)
	}
	return operatorapi.Figures{
		Requests: f.Requests, RateLimited: f.RateLimited, RateLimitedShare: f.RateLimitedShare(), Refused: f.Refused,
		Failed: f.Failed, P50Ms: milliseconds(.5), P99Ms: milliseconds(.99),
	}
}
