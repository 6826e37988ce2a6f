package operator

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
)

// ListUsers lists all users, or the user with an email address.
func (h handlers) ListUsers(
	ctx context.Context, request operatorapi.ListUsersRequestObject,
) (operatorapi.ListUsersResponseObject, error) {
	params := request.Params
	rows, next, err := page.Read(page.List{Name: "users", Filters: params.Email, Limit: params.Limit, Cursor: params.Cursor},
		func(after page.Key, limit int) ([]account.User, error) {
			if params.Email == nil {
				return h.Accounts.ListUsers(ctx, after.ID, int32(limit)) //nolint:gosec // 1 to 1001
			}
			user, err := h.Accounts.FindUser(ctx, *params.Email)
			if errors.Is(err, refusal.ErrUserNotFound) {
				return nil, nil
			}
			return []account.User{user}, err
		}, func(user account.User) page.Key { return page.Key{ID: user.ID} })
	return operatorapi.ListUsers200JSONResponse{Data: each(rows, userBody), NextCursor: next}, err
}

// CreateUser adds a user.
func (h handlers) CreateUser(
	ctx context.Context, request operatorapi.CreateUserRequestObject,
) (operatorapi.CreateUserResponseObject, error) {
	user := account.NewUser{
		Email: request.Body.Email, Timezone: request.Body.Timezone, RegisteredOn: request.Body.RegisteredOn.Time,
	}
	if id := request.Body.UserId; id != nil {
		if *id == uuid.Nil { // it means no id to the domain
			return nil, contract.Field("must not be the nil UUID", "user_id")
		}
		user.ID = *id
	}
	created, err := h.Accounts.CreateUser(ctx, user)
	return operatorapi.CreateUser201JSONResponse{
		Body:    userBody(created),
		Headers: operatorapi.CreateUser201ResponseHeaders{Location: Path + "v1/users/" + created.ID.String()},
	}, err
}

// ReadUser returns a user.
func (h handlers) ReadUser(
	ctx context.Context, request operatorapi.ReadUserRequestObject,
) (operatorapi.ReadUserResponseObject, error) {
	user, err := h.Accounts.GetUser(ctx, request.UserId)
	return operatorapi.ReadUser200JSONResponse(userBody(user)), err
}

// ChangeUser changes the given fields.
func (h handlers) ChangeUser(
	ctx context.Context, request operatorapi.ChangeUserRequestObject,
) (operatorapi.ChangeUserResponseObject, error) {
	change := account.UserChange{Email: request.Body.Email, Timezone: request.Body.Timezone}
	if day := request.Body.RegisteredOn; day != nil {
		change.RegisteredOn = &day.Time
	}
	user, err := h.Accounts.ChangeUser(ctx, request.UserId, change)
	return operatorapi.ChangeUser200JSONResponse(userBody(user)), err
}

// DeleteUser ends the user's connections and deletes all of the user's data.
func (h handlers) DeleteUser(
	ctx context.Context, request operatorapi.DeleteUserRequestObject,
) (operatorapi.DeleteUserResponseObject, error) {
	_, err := h.Accounts.DeleteUser(ctx, request.UserId)
	return operatorapi.DeleteUser204Response{}, err
}

// PutUsers creates users, or changes those whose ids exist.
func (h handlers) PutUsers(
	ctx context.Context, request operatorapi.PutUsersRequestObject,
) (operatorapi.PutUsersResponseObject, error) {
	users := make([]account.NewUser, len(request.Body.Users))
	for i, row := range request.Body.Users {
		users[i] = account.NewUser{ID: row.UserId, Email: row.Email, Timezone: row.Timezone, RegisteredOn: row.RegisteredOn.Time}
	}
	result, err := h.Accounts.PutUsers(ctx, users)
	return operatorapi.PutUsers200JSONResponse{Users: written(result)}, err
}

func userBody(user account.User) operatorapi.User {
	return operatorapi.User{
		UserId:       user.ID,
		Email:        user.Email,
		Timezone:     user.Timezone,
		RegisteredOn: openapi_types.Date{Time: user.RegisteredOn},
		CreatedAt:    instant(user.CreatedAt),
	}
}

// instant always writes three digits after the point.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
