package sandbox

import (
	"context"
	"encoding/json"

	"connect-svc/gen/operatorapi"
	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/edge/operator"
)

// AddActivity writes rows of a user, all or none. The rows are those of the operator API without their user.
func (d driver) AddActivity(
	ctx context.Context, request sandboxapi.AddActivityRequestObject,
) (sandboxapi.AddActivityResponseObject, error) {
	if !d.people.has(request.UserId) {
		return nil, errUserNotFound
	}
	var lists map[string][]map[string]any
	if err := convert(request.Body, &lists); err != nil {
		return nil, err
	}
	for _, rows := range lists {
		for _, row := range rows {
			row["user_id"] = request.UserId
		}
	}
	var batch operatorapi.ActivityBatch
	if err := convert(lists, &batch); err != nil {
		return nil, err
	}
	result, err := operator.PutActivity(ctx, d.service.Activity, &batch)
	if err != nil {
		return nil, err
	}
	var response sandboxapi.AddActivity200JSONResponse
	err = convert(result, &response)
	return response, err
}

// convert converts a type of one document to a type of another with the same JSON.
func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
