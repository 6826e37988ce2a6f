package operator

import (
	"context"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/activity"
)

// PutActivity writes a whole batch or nothing.
func (h handlers) PutActivity(
	ctx context.Context, request operatorapi.PutActivityRequestObject,
) (operatorapi.PutActivityResponseObject, error) {
	result, err := PutActivity(ctx, h.Activity, request.Body)
	return operatorapi.PutActivity200JSONResponse(result), err
}

// PutActivity is the operation without its envelope, also for the sandbox's driver.
func PutActivity(
	ctx context.Context, store *activity.Store, body *operatorapi.ActivityBatch,
) (operatorapi.ActivityBatchResult, error) {
	result, err := store.Put(ctx, readBatch(body))
	return operatorapi.ActivityBatchResult{
		DailySteps:                written(result.DailySteps),
		CyclingActivities:         written(result.CyclingActivities),
		StepCorrections:           written(result.StepCorrections),
		CyclingAdjustments:        written(result.CyclingAdjustments),
		DailyStepsRemovals:        operatorapi.Removed(result.DailyStepsRemovals),
		Removals:                  operatorapi.Removed(result.Removals),
		StepCorrectionRemovals:    operatorapi.Removed(result.StepCorrectionRemovals),
		CyclingAdjustmentRemovals: operatorapi.Removed(result.CyclingAdjustmentRemovals),
	}, err
}

func written(result activity.Result) operatorapi.Written {
	return operatorapi.Written{
		Rows: result.Rows, Inserted: result.Inserted, Updated: result.Updated, Unchanged: result.Unchanged,
	}
}

func readBatch(body *operatorapi.ActivityBatch) (batch activity.Batch) {
	for _, row := range body.DailySteps {
		batch.DailySteps = append(batch.DailySteps, activity.StepsRecord{
			UserID: row.UserId, Date: row.Date.Time, Steps: int(row.Steps),
		})
	}
	for _, row := range body.CyclingActivities {
		batch.AddRide(row.UserId, row.SourceId, row.RecordedStartTime, row.RecordedEndTime, int(row.DistanceMeters))
	}
	for _, row := range body.StepCorrections {
		batch.StepCorrections = append(batch.StepCorrections, activity.AdjustmentRecord{
			UserID: row.UserId, ID: row.CorrectionId, Date: row.Date.Time, Delta: int(row.Delta), Note: row.Note,
		})
	}
	for _, row := range body.CyclingAdjustments {
		batch.CyclingAdjustments = append(batch.CyclingAdjustments, activity.AdjustmentRecord{
			UserID: row.UserId, ID: row.AdjustmentId, Date: row.Date.Time, Delta: int(row.DeltaMeters), Note: row.Note,
		})
	}
	for _, row := range body.Removals {
		batch.Removals = append(batch.Removals, activity.RideRecord{UserID: row.UserId, SourceID: row.SourceId})
	}
	for _, row := range body.DailyStepsRemovals {
		batch.DailyStepsRemovals = append(batch.DailyStepsRemovals, activity.StepsRecord{UserID: row.UserId, Date: row.Date.Time})
	}
	for _, row := range body.StepCorrectionRemovals {
		batch.StepCorrectionRemovals = append(batch.StepCorrectionRemovals, activity.AdjustmentRecord{UserID: row.UserId, ID: row.CorrectionId})
	}
	for _, row := range body.CyclingAdjustmentRemovals {
		batch.CyclingAdjustmentRemovals = append(batch.CyclingAdjustmentRemovals, activity.AdjustmentRecord{UserID: row.UserId, ID: row.AdjustmentId})
	}
	return batch
}
