package operator

import (
	"context"
	"errors"
	"strconv"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/account"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/intake"
)

// PutUsers creates users, or changes those whose ids exist.
func (h handlers) PutUsers(
	ctx context.Context, request operatorapi.PutUsersRequestObject,
) (operatorapi.PutUsersResponseObject, error) {
	users := make([]account.NewUser, len(request.Body.Users))
	for i, row := range request.Body.Users {
		users[i] = account.NewUser{ID: row.UserId, Email: row.Email, Timezone: row.Timezone, RegisteredOn: row.RegisteredOn.Time}
	}
	result, err := h.Accounts.PutUsers(ctx, users)
	if bad := (*intake.BadRows)(nil); errors.As(err, &bad) {
		var fields contract.ContentError
		for _, row := range bad.Named {
			fields = append(fields, contract.Field(row.Err.Error(), "users", strconv.Itoa(row.Line-1), row.Column)...)
		}
		return nil, fields
	}
	return operatorapi.PutUsers200JSONResponse{Users: operatorapi.Written{
		Rows: result.Rows, Inserted: result.Inserted, Updated: result.Updated, Unchanged: result.Unchanged,
	}}, err
}
