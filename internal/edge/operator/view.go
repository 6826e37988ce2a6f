package operator

import (
	"context"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/scope"
)

// ReadUserActivity returns what is recorded of a user and what partners see of it. The audit log records that it was read.
func (h handlers) ReadUserActivity(
	ctx context.Context, request operatorapi.ReadUserActivityRequestObject,
) (operatorapi.ReadUserActivityResponseObject, error) {
	dates := activity.Range{From: request.Params.From.Time, To: request.Params.To.Time}
	if dates.To.Before(dates.From) || !dates.To.Before(dates.From.AddDate(0, 0, activity.MaxViewDates)) {
		return nil, contract.ErrMalformed
	}
	user, err := h.Accounts.GetUser(ctx, request.UserId)
	if err != nil {
		return nil, err
	}
	view, err := h.Activity.View(ctx, user.ID, dates)
	if err != nil {
		return nil, err
	}
	connections, err := h.OAuth.ConnectionsOfUser(ctx, user.ID)
	return operatorapi.ReadUserActivity200JSONResponse{
		UserId: user.ID, From: request.Params.From, To: request.Params.To, Complete: view.Complete, Readers: readersOf(user, connections),
		Days:               each(view.Days, viewedDayBody),
		Rides:              each(view.Rides, rideBody),
		Adjustments:        each(view.Adjustments, writtenAdjustmentBody),
		RemovedAdjustments: each(view.Removed, removedAdjustmentBody),
	}, err
}

// readersOf returns the clients that can read the user's activity now, and since which dates.
func readersOf(user account.User, connections []oauth.Connection) []operatorapi.Reader {
	readers := []operatorapi.Reader{}
	for _, connection := range connections {
		if connection.State != oauth.Authorized || connection.ClientStatus != string(client.Active) {
			continue
		}
		reader := operatorapi.Reader{ClientId: connection.Partner.ClientID, ClientName: connection.Partner.Name}
		first := func(dataset activity.Dataset) *openapi_types.Date {
			of := activity.Reader{HistoryFrom: connection.HistoryFrom, RegisteredOn: user.RegisteredOn}
			return &openapi_types.Date{Time: of.FirstDate(dataset)}
		}
		if connection.Scopes.Contains(scope.DailySteps) {
			reader.StepsFrom = first(activity.DatasetDailySteps)
		}
		if connection.Scopes&(scope.CyclingDaily|scope.CyclingActivities) != 0 {
			reader.CyclingFrom = first(activity.DatasetCyclingDaily)
		}
		readers = append(readers, reader)
	}
	return readers
}

func viewedDayBody(day activity.ViewedDay) operatorapi.UserActivityDay {
	figures := func(f activity.ViewedFigures) operatorapi.DayFigures {
		body := operatorapi.DayFigures{Adjusted: f.Adjusted, Seen: f.Seen}
		if f.IsRecorded {
			body.Recorded = &f.Recorded
		}
		return body
	}
	return operatorapi.UserActivityDay{Date: openapi_types.Date{Time: day.Date}, Steps: figures(day.Steps), Cycling: figures(day.Cycling)}
}

func rideBody(ride activity.RecordedRide) operatorapi.RecordedRide {
	const clock = "2006-01-02T15:04:05.000000"
	body := operatorapi.RecordedRide{
		SourceId: ride.SourceID, RecordedStartTime: ride.StartTime.Format(clock), DistanceMeters: ride.DistanceMeters,
	}
	if ride.EndTime != nil {
		body.RecordedEndTime = new(ride.EndTime.Format(clock))
	}
	return body
}

func writtenAdjustmentBody(a activity.Adjustment) operatorapi.WrittenAdjustment {
	return operatorapi.WrittenAdjustment{
		AdjustmentId: a.ID, Dataset: operatorapi.AdjustedDataset(a.Dataset), Date: openapi_types.Date{Time: a.Date},
		Delta: int32(a.Delta), Note: a.Note, CreatedAt: instant(a.CreatedAt), Actor: orNull(a.Actor),
	}
}

func removedAdjustmentBody(a activity.RemovedAdjustment) operatorapi.RemovedAdjustment {
	return operatorapi.RemovedAdjustment{
		AdjustmentId: a.ID, Dataset: operatorapi.AdjustedDataset(a.Dataset), Date: openapi_types.Date{Time: a.Date}, At: instant(a.At),
		Actor: a.Actor,
	}
}
