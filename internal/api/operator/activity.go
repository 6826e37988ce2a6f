package operator

import (
	"context"
	"errors"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/activity"
	"connect-svc/internal/api/contract"
)

// PutActivity writes a batch, whole or not at all.
func (h handlers) PutActivity(
	ctx context.Context, request operatorapi.PutActivityRequestObject,
) (operatorapi.PutActivityResponseObject, error) {
	result, err := PutActivity(ctx, h.Activity, request.Body)
	if err != nil {
		return nil, err
	}
	return operatorapi.PutActivity200JSONResponse{
		Body: result, Headers: operatorapi.PutActivity200ResponseHeaders(okHeaders(ctx)),
	}, nil
}

// PutActivity is the operation without its envelope. The sandbox's driver has it, too.
func PutActivity(
	ctx context.Context, store *activity.Store, body *operatorapi.ActivityBatch,
) (operatorapi.ActivityBatchResult, error) {
	batch, err := readBatch(body)
	if err != nil {
		return operatorapi.ActivityBatchResult{}, err
	}
	result, err := store.Put(ctx, batch)
	if err != nil {
		return operatorapi.ActivityBatchResult{}, batchError(err)
	}
	return operatorapi.ActivityBatchResult{
		DailySteps:         written(result.DailySteps),
		CyclingActivities:  written(result.CyclingActivities),
		StepCorrections:    written(result.StepCorrections),
		CyclingAdjustments: written(result.CyclingAdjustments),
		Removals:           operatorapi.Removed(result.Removals),
	}, nil
}

func written(result activity.Result) operatorapi.Written {
	return operatorapi.Written{
		Rows: result.Rows, Inserted: result.Inserted, Updated: result.Updated, Unchanged: result.Unchanged,
	}
}

// batchError names the field that the domain refuses. The texts of the domain are fixed and hold no values.
func batchError(err error) error {
	if bad := (*activity.BatchError)(nil); errors.As(err, &bad) {
		return contract.Field(bad.Err.Error(), bad.Path()...)
	}
	return err
}

// readBatch turns the body into what the domain takes.
func readBatch(body *operatorapi.ActivityBatch) (batch activity.Batch, err error) {
	for _, row := range body.DailySteps {
		batch.DailySteps = append(batch.DailySteps, activity.StepsRecord{
			UserID: row.UserId, Date: row.Date.Time, Steps: int(row.Steps),
		})
	}
	for _, row := range body.CyclingActivities {
		meters := int(row.DistanceMeters)
		if err := batch.AddRide(row.UserId, row.SourceId, row.RecordedStartTime, row.RecordedEndTime, meters); err != nil {
			return batch, batchError(err)
		}
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
		batch.Removals = append(batch.Removals, activity.RideRemoval{UserID: row.UserId, SourceID: row.SourceId})
	}
	return batch, nil
}
