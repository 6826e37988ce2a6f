package sandbox

import (
	"context"
	"encoding/json"

	"connect-svc/gen/operatorapi"
	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/api/operator"
)

// AddActivity writes rows of a user, all or none. The rows are those of the operator API without their user.
func (d driver) AddActivity(
	ctx context.Context, request sandboxapi.AddActivityRequestObject,
) (sandboxapi.AddActivityResponseObject, error) {
	user := request.UserId
	if !d.people.has(user) {
		return nil, errUserNotFound
	}
	var batch operatorapi.ActivityBatch
	if err := convert(request.Body, &batch); err != nil {
		return nil, err
	}
	for i := range batch.DailySteps {
		batch.DailySteps[i].UserId = user
	}
	for i := range batch.CyclingActivities {
		batch.CyclingActivities[i].UserId = user
	}
	for i := range batch.StepCorrections {
		batch.StepCorrections[i].UserId = user
	}
	for i := range batch.CyclingAdjustments {
		batch.CyclingAdjustments[i].UserId = user
	}
	for i := range batch.Removals {
		batch.Removals[i].UserId = user
	}
	for i := range batch.DailyStepsRemovals {
		batch.DailyStepsRemovals[i].UserId = user
	}
	for i := range batch.StepCorrectionRemovals {
		batch.StepCorrectionRemovals[i].UserId = user
	}
	for i := range batch.CyclingAdjustmentRemovals {
		batch.CyclingAdjustmentRemovals[i].UserId = user
	}
	result, err := operator.PutActivity(ctx, d.service.Activity, &batch)
	if err != nil {
		return nil, err
	}
	response := sandboxapi.AddActivity200JSONResponse{Headers: sandboxapi.AddActivity200ResponseHeaders(okHeaders(ctx))}
	return response, convert(result, &response.Body)
}

// convert turns a type of one document into one of another that reads the same JSON.
func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
