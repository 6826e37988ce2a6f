package partner

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/activity"
	openapi_types "github.com/oapi-codegen/runtime/types"
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

// rowsResponse is the success of a read, the only response that is not generated: the reflection of encoding/json would take more than a
// quarter of the CPU of a page of 500 rides, and most allocations of a month of days (BenchmarkRows). A test compares its bytes with those
// of the generated types.
type rowsResponse[Row any] struct {
	rows      iter.Seq[Row]
	appendRow func(b []byte, row Row) []byte
	meta      any
}

var (
	_ partnerapi.ReadDailyActivityResponseObject     = rowsResponse[activity.Steps]{}
	_ partnerapi.ReadCyclingDailyResponseObject      = rowsResponse[activity.CyclingDay]{}
	_ partnerapi.ReadCyclingActivitiesResponseObject = rowsResponse[activity.Ride]{}
)

// VisitReadDailyActivityResponse writes the response.
func (a rowsResponse[Row]) VisitReadDailyActivityResponse(w http.ResponseWriter) error {
	return a.write(w)
}

// VisitReadCyclingDailyResponse writes the response.
func (a rowsResponse[Row]) VisitReadCyclingDailyResponse(w http.ResponseWriter) error {
	return a.write(w)
}

// VisitReadCyclingActivitiesResponse writes the response.
func (a rowsResponse[Row]) VisitReadCyclingActivitiesResponse(w http.ResponseWriter) error {
	return a.write(w)
}

func (a rowsResponse[Row]) write(w http.ResponseWriter) error {
	meta, err := json.Marshal(a.meta)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json") // the guard has set the others
	w.WriteHeader(http.StatusOK)
	part := append(make([]byte, 0, maxDays), `{"data":[`...)
	first := true
	for row := range a.rows {
		if !first {
			part = append(part, ',')
		}
		first = false
		if part = a.appendRow(part, row); len(part) >= maxPart {
			if _, err := w.Write(part); err != nil {
				return err
			}
			part = part[:0]
		}
	}
	part = append(append(append(part, `],"meta":`...), meta...), "}\n"...)
	_, err = w.Write(part)
	return err
}

// The sizes of a response of 31 days at most, and of a part of a longer one, which is about that of a TLS record.
const (
	maxDays = 3 << 10
	maxPart = 15 << 10
)

// clock is the format of specification 2.7. It always has six fractional digits, and never a zone.
const clock = "2006-01-02T15:04:05.000000"

// appendSteps, appendCyclingDay and appendRide append a row (specification 2.5, 2.6, 2.7). No text in it needs an escape.
func appendSteps(b []byte, day activity.Steps) []byte {
	b = day.Date.AppendFormat(append(b, `{"date":"`...), time.DateOnly)
	b = strconv.AppendInt(append(b, `","steps":`...), day.Steps, 10)
	return append(b, `,"updated_at":null}`...)
}

func appendCyclingDay(b []byte, day activity.CyclingDay) []byte {
	b = day.Date.AppendFormat(append(b, `{"date":"`...), time.DateOnly)
	b = strconv.AppendInt(append(b, `","distance_meters":`...), day.DistanceMeters, 10)
	return append(b, `,"source":"`+partnerapi.SourceSvc+`","updated_at":null}`...)
}

func appendRide(b []byte, ride activity.Ride) []byte {
	b = append(b, `{"date":"`...)
	b = ride.StartTime.AppendFormat(b, time.DateOnly)
	b = append(b, `","distance_meters":`...)
	b = strconv.AppendInt(b, ride.DistanceMeters, 10)
	b = append(b, `,"granularity":"`+partnerapi.CyclingActivityGranularityUnknown+`","id":"`...)
	b = append(b, ride.ID...)
	b = append(b, `","manual":null,"recorded_end_time":`...)
	if ride.EndTime == nil {
		b = append(b, "null"...)
	} else {
		b = append(ride.EndTime.AppendFormat(append(b, '"'), clock), '"')
	}
	b = append(b, `,"recorded_start_time":"`...)
	b = ride.StartTime.AppendFormat(b, clock)
	return append(b, `","source":"`+partnerapi.SourceSvc+`","timezone":null,"updated_at":null}`...)
}
