package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/activity"
	"connect-svc/internal/api/contract"
)

// maxRows of a batch, of all its parts together.
const maxRows = 10_000

// partNames are the parts of a batch as the document calls them.
var partNames = map[activity.Part]string{
	activity.PartDailySteps:         "daily_steps",
	activity.PartCyclingActivities:  "cycling_activities",
	activity.PartStepCorrections:    "step_corrections",
	activity.PartCyclingAdjustments: "cycling_adjustments",
	activity.PartRemovals:           "removals",
}

// AddActivity writes rows of a user, all or none.
func (d driver) AddActivity(
	ctx context.Context, request sandboxapi.AddActivityRequestObject,
) (sandboxapi.AddActivityResponseObject, error) {
	if !d.people.has(request.UserId) {
		return nil, errUserNotFound
	}
	batch, err := readBatch(request.UserId, request.Body)
	if err != nil {
		return nil, err
	}
	result, err := d.service.Activity.Put(ctx, batch)
	if bad := (*activity.BatchError)(nil); errors.As(err, &bad) {
		return nil, rowError(bad.Part, bad.Line-1, bad.Column, bad.Err)
	}
	if err != nil {
		return nil, err
	}
	return sandboxapi.AddActivity200JSONResponse{
		Body: sandboxapi.ActivityBatchResult{
			DailySteps:         written(result.DailySteps),
			CyclingActivities:  written(result.CyclingActivities),
			StepCorrections:    written(result.StepCorrections),
			CyclingAdjustments: written(result.CyclingAdjustments),
			Removals: sandboxapi.Removed{
				Rows: result.Removals.Rows, Removed: result.Removals.Removed, Unchanged: result.Removals.Unchanged,
			},
		},
		Headers: sandboxapi.AddActivity200ResponseHeaders(okHeaders(ctx)),
	}, nil
}

func written(result activity.Result) sandboxapi.Written {
	return sandboxapi.Written{
		Rows: result.Rows, Inserted: result.Inserted, Updated: result.Updated, Unchanged: result.Unchanged,
	}
}

// rowError names a field of a row, which has the same name in the domain. The texts of the domain are fixed and hold no
// values.
func rowError(part activity.Part, row int, column string, err error) error {
	return contract.Field(err.Error(), partNames[part], strconv.Itoa(row), column)
}

// readBatch turns the body into what the domain takes.
func readBatch(user uuid.UUID, body *sandboxapi.ActivityBatch) (batch activity.Batch, err error) {
	steps, rides := rowsOf(body.DailySteps), rowsOf(body.CyclingActivities)
	corrections, adjustments := rowsOf(body.StepCorrections), rowsOf(body.CyclingAdjustments)
	removals := rowsOf(body.Removals)
	if len(steps)+len(rides)+len(corrections)+len(adjustments)+len(removals) > maxRows {
		return batch, contract.Field(fmt.Sprintf("must have at most %d rows in all", maxRows))
	}
	for _, row := range steps {
		batch.DailySteps = append(batch.DailySteps, activity.StepsRecord{UserID: user, Date: row.Date.Time, Steps: int(row.Steps)})
	}
	for i, row := range rides {
		record, column, err := readRide(user, row)
		if err != nil {
			return batch, rowError(activity.PartCyclingActivities, i, column, err)
		}
		batch.CyclingActivities = append(batch.CyclingActivities, record)
	}
	for _, row := range corrections {
		batch.StepCorrections = append(batch.StepCorrections, activity.AdjustmentRecord{
			UserID: user, ID: row.CorrectionId, Date: row.Date.Time, Delta: int(row.Delta), Note: row.Note,
		})
	}
	for _, row := range adjustments {
		batch.CyclingAdjustments = append(batch.CyclingAdjustments, activity.AdjustmentRecord{
			UserID: user, ID: row.AdjustmentId, Date: row.Date.Time, Delta: int(row.DeltaMeters), Note: row.Note,
		})
	}
	for _, row := range removals {
		batch.Removals = append(batch.Removals, activity.RideRemoval{UserID: user, SourceID: row.SourceId})
	}
	return batch, nil
}

var errClock = errors.New("must be a clock time that exists")

// readRide reads the clock times, whose form the document has checked.
func readRide(user uuid.UUID, row sandboxapi.RideRow) (record activity.RideRecord, column string, err error) {
	record = activity.RideRecord{UserID: user, SourceID: row.SourceId, DistanceMeters: int(row.DistanceMeters)}
	if record.Start, err = time.Parse("2006-01-02T15:04:05", row.RecordedStartTime); err != nil {
		return record, "recorded_start_time", errClock
	}
	if row.RecordedEndTime != nil {
		if record.End, err = time.Parse("2006-01-02T15:04:05", *row.RecordedEndTime); err != nil {
			return record, "recorded_end_time", errClock
		}
	}
	return record, "", nil
}

// rowsOf is a list that may have been left out.
func rowsOf[R any](list *[]R) []R {
	if list == nil {
		return nil
	}
	return *list
}
