package operator

import (
	"context"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/foundation/page"
)

// ListClientErrors lists a client's refused requests.
func (h handlers) ListClientErrors(
	ctx context.Context, request operatorapi.ListClientErrorsRequestObject,
) (operatorapi.ListClientErrorsResponseObject, error) {
	rows, next, err := page.Read(page.List{Name: "client errors", Filters: request.ClientId, Limit: request.Params.Limit, Cursor: request.Params.Cursor},
		func(after page.Key, limit int) ([]usage.ClientError, error) {
			return h.Usage.Errors(ctx, request.ClientId, after, limit)
		}, usage.ClientError.Key)
	return operatorapi.ListClientErrors200JSONResponse{Data: each(rows, clientErrorBody), NextCursor: next}, err
}

func clientErrorBody(e usage.ClientError) operatorapi.ClientError {
	return operatorapi.ClientError{
		At: instant(e.At), Operation: e.Operation, Status: int32(e.Status), Code: e.Code, Reason: e.Reason,
		Authenticated: e.Authenticated, Requests: e.Requests, RequestIds: e.RequestIDs,
	}
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
