package partner

import (
	"context"
	"slices"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/activity"
)

// defaultLimit is the page size of a request without limit (specification 4.9).
const defaultLimit = 100

// ReadDailyActivity is specification 4.7.
func (e *edge) ReadDailyActivity(
	ctx context.Context, request partnerapi.ReadDailyActivityRequestObject,
) (partnerapi.ReadDailyActivityResponseObject, error) {
	params, reader := request.Params, callOf(ctx).reader()
	dates, err := activity.ParseRange(reader, params.From.String(), params.To.String(), activity.DatasetDailySteps)
	if err != nil {
		return nil, err
	}
	rows, err := e.Activity.DailySteps(ctx, reader.UserID, dates)
	return rowsResponse[activity.Steps]{slices.Values(rows), appendSteps, partnerapi.DailyActivityMeta{
		From:       params.From,
		To:         params.To,
		DateBasis:  partnerapi.DateBasisSvcRecordedDate,
		Source:     partnerapi.SourceSvc,
		SnapshotAt: e.snapshot(),
	}}, err
}

// ReadCyclingDaily is specification 4.8.
func (e *edge) ReadCyclingDaily(
	ctx context.Context, request partnerapi.ReadCyclingDailyRequestObject,
) (partnerapi.ReadCyclingDailyResponseObject, error) {
	params, reader := request.Params, callOf(ctx).reader()
	dates, err := activity.ParseRange(reader, params.From.String(), params.To.String(), activity.DatasetCyclingDaily)
	if err != nil {
		return nil, err
	}
	rows, err := e.Activity.CyclingDaily(ctx, reader.UserID, dates)
	return rowsResponse[activity.CyclingDay]{slices.Values(rows), appendCyclingDay, partnerapi.CyclingDailyMeta{
		From:       params.From,
		To:         params.To,
		DateBasis:  partnerapi.DateBasisSvcRecordedDate,
		SnapshotAt: e.snapshot(),
	}}, err
}

// ReadCyclingActivities is specification 4.9.
func (e *edge) ReadCyclingActivities(
	ctx context.Context, request partnerapi.ReadCyclingActivitiesRequestObject,
) (partnerapi.ReadCyclingActivitiesResponseObject, error) {
	params, reader := request.Params, callOf(ctx).reader()
	dates, err := activity.ParseRange(reader, params.From.String(), params.To.String(), activity.DatasetCyclingActivities)
	if err != nil {
		return nil, err
	}
	limit, cursor := defaultLimit, ""
	if params.Limit != nil {
		limit = *params.Limit
	}
	if params.Cursor != nil {
		cursor = *params.Cursor // never empty according to the document
	}
	page, err := e.Activity.CyclingPage(ctx, reader, dates, limit, cursor)
	if err != nil {
		return nil, err
	}
	meta := partnerapi.CyclingActivitiesMeta{
		From:       params.From,
		To:         params.To,
		DateBasis:  partnerapi.DateBasisSvcRecordedDate,
		TimeBasis:  partnerapi.CyclingActivitiesMetaTimeBasisSvcRecordedClock,
		SnapshotAt: e.snapshot(),
	}
	if page.NextCursor != "" {
		meta.NextCursor = &page.NextCursor
	}
	return rowsResponse[activity.Ride]{page.Rides(), appendRide, meta}, nil
}

// instant is the format of specification 2.8. It always has three digits after the point.
const instant = "2006-01-02T15:04:05.000Z"

func date(day time.Time) openapi_types.Date { return openapi_types.Date{Time: day} }

func (e *edge) snapshot() string { return e.Now().UTC().Format(instant) }

// reader returns the bearer of the access token for package activity.
func (c *call) reader() activity.Reader {
	return activity.Reader{
		UserID:            c.access.UserID,
		ClientID:          c.access.ClientID,
		ConnectionVersion: c.access.ConnectionVersion,
		HistoryFrom:       c.access.HistoryFrom,
		RegisteredOn:      c.access.RegisteredOn,
		Now:               c.access.Now,
	}
}
