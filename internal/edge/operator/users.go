package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"
)

// ListUsers lists all users, or the user with an email address.
func (h handlers) ListUsers(ctx context.Context, request operatorapi.ListUsersRequestObject) (operatorapi.ListUsersResponseObject, error) {
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
func (h handlers) CreateUser(ctx context.Context, request operatorapi.CreateUserRequestObject) (operatorapi.CreateUserResponseObject, error) {
	user := account.NewUser{
		Email: request.Body.Email, Timezone: request.Body.Timezone, RegisteredOn: request.Body.RegisteredOn.Time,
	}
	if id := request.Body.UserId; id != nil {
		if *id == uuid.Nil { // it means no id to the domain
			return nil, refusal.Field{Path: "user_id", Problem: "must not be the nil UUID"}
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
func (h handlers) ReadUser(ctx context.Context, request operatorapi.ReadUserRequestObject) (operatorapi.ReadUserResponseObject, error) {
	user, err := h.Accounts.GetUser(ctx, request.UserId)
	return operatorapi.ReadUser200JSONResponse(userBody(user)), err
}

// ChangeUser changes the given fields.
func (h handlers) ChangeUser(ctx context.Context, request operatorapi.ChangeUserRequestObject) (operatorapi.ChangeUserResponseObject, error) {
	change := account.UserChange{Email: request.Body.Email, Timezone: request.Body.Timezone}
	if day := request.Body.RegisteredOn; day != nil {
		change.RegisteredOn = &day.Time
	}
	user, err := h.Accounts.ChangeUser(ctx, request.UserId, change)
	return operatorapi.ChangeUser200JSONResponse(userBody(user)), err
}

// DeleteUser ends the user's connections and deletes all of the user's data.
func (h handlers) DeleteUser(ctx context.Context, request operatorapi.DeleteUserRequestObject) (operatorapi.DeleteUserResponseObject, error) {
	_, err := h.Accounts.DeleteUser(ctx, request.UserId)
	return operatorapi.DeleteUser204Response{}, err
}

// ExportUser sends a copy of all data of a user.
func (h handlers) ExportUser(ctx context.Context, request operatorapi.ExportUserRequestObject) (operatorapi.ExportUserResponseObject, error) {
	user, err := h.Accounts.GetUser(ctx, request.UserId)
	return userExport(func(w http.ResponseWriter) error {
		err := site.Attach(ctx, w, "user-"+user.ID.String()+".json", "application/json", func(file io.Writer) error {
			return h.WriteCopy(ctx, file, user, h.name())
		})
		if errors.Is(err, site.ErrCutOff) {
			panic(http.ErrAbortHandler)
		}
		return err
	}), err
}

// userExport is an answer that is sent as it is read.
type userExport func(http.ResponseWriter) error

// VisitExportUserResponse sends it.
func (send userExport) VisitExportUserResponse(w http.ResponseWriter) error { return send(w) }

// PutUsers creates users, or changes those whose ids exist.
func (h handlers) PutUsers(ctx context.Context, request operatorapi.PutUsersRequestObject) (operatorapi.PutUsersResponseObject, error) {
	users := make([]account.NewUser, len(request.Body.Users))
	for i, row := range request.Body.Users {
		users[i] = account.NewUser{ID: row.UserId, Email: row.Email, Timezone: row.Timezone, RegisteredOn: row.RegisteredOn.Time}
	}
	telemetry.EventOf(ctx).Rows = len(users)
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

// PutActivity writes a whole batch or nothing.
func (h handlers) PutActivity(ctx context.Context, request operatorapi.PutActivityRequestObject) (operatorapi.PutActivityResponseObject, error) {
	result, err := Batch(ctx, h.Activity.Put, request.Body, orZero(request.Params.UnknownUsers) == operatorapi.PutActivityParamsUnknownUsersSkip)
	return operatorapi.PutActivity200JSONResponse(result), err
}

// PreviewActivity tells what PutActivity would do.
func (h handlers) PreviewActivity(
	ctx context.Context, request operatorapi.PreviewActivityRequestObject,
) (operatorapi.PreviewActivityResponseObject, error) {
	result, err := Batch(ctx, h.Activity.Preview, request.Body, orZero(request.Params.UnknownUsers) == operatorapi.PreviewActivityParamsUnknownUsersSkip)
	return operatorapi.PreviewActivity200JSONResponse(result), err
}

// Batch puts or previews a batch without the envelope of the operation, also for the sandbox's driver. skipUnknown: rows of unknown users are
// left out.
func Batch(
	ctx context.Context, put func(context.Context, activity.Batch) (activity.BatchResult, error), body *operatorapi.ActivityBatch,
	skipUnknown bool,
) (operatorapi.ActivityBatchResult, error) {
	batch := readBatch(body)
	telemetry.EventOf(ctx).Rows = batch.Rows()
	batch.SkipUnknown = skipUnknown
	result, err := put(ctx, batch)
	answer := operatorapi.ActivityBatchResult{
		DailySteps:                written(result.DailySteps),
		CyclingActivities:         written(result.CyclingActivities),
		StepCorrections:           written(result.StepCorrections),
		CyclingAdjustments:        written(result.CyclingAdjustments),
		DailyStepsRemovals:        operatorapi.Removed(result.DailyStepsRemovals),
		Removals:                  operatorapi.Removed(result.Removals),
		StepCorrectionRemovals:    operatorapi.Removed(result.StepCorrectionRemovals),
		CyclingAdjustmentRemovals: operatorapi.Removed(result.CyclingAdjustmentRemovals),
	}
	if skipped := result.Skipped; skipped != nil {
		answer.Skipped = &operatorapi.SkippedRows{Rows: skipped.Rows, Users: skipped.Users, UserIds: each(skipped.UserIDs, func(id uuid.UUID) uuid.UUID { return id })}
	}
	return answer, err
}

func written(result activity.Result) operatorapi.Written {
	return operatorapi.Written{
		Rows: result.Rows, Inserted: result.Inserted, Updated: result.Updated, Unchanged: result.Unchanged, Outdated: result.Outdated,
	}
}

func readBatch(body *operatorapi.ActivityBatch) (batch activity.Batch) {
	batch.SetObservedAt(body.ObservedAt)
	for _, row := range body.DailySteps {
		batch.AddSteps(row.UserId, row.Date.Time, int(row.Steps), row.ObservedAt)
	}
	for _, row := range body.CyclingActivities {
		batch.AddRide(row.UserId, row.SourceId, row.RecordedStartTime, row.RecordedEndTime, int(row.DistanceMeters), row.ObservedAt)
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

// Find returns what a text names.
func (h handlers) Find(ctx context.Context, request operatorapi.FindRequestObject) (operatorapi.FindResponseObject, error) {
	matches, err := h.Finder.Find(ctx, request.Params.Text)
	return operatorapi.Find200JSONResponse{Data: each(matches, func(match lookup.Found) operatorapi.Found {
		body := operatorapi.Found{
			Kind: operatorapi.FoundKind(match.Kind), UserId: orNull(match.UserID), ClientId: orNull(match.ClientID), Name: match.Name,
			At: instantOrNull(match.At), Detail: match.Detail,
		}
		if match.EventID != uuid.Nil {
			body.WebhookId = new(webhook.Event{ID: match.EventID}.MessageID())
		}
		return body
	})}, err
}

// orNull returns null for the zero value.
func orNull[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// named returns the user of an address and the client of a name, and what was given by id. ok is false if a name stands for another one
// than the id. Errors: refusal.ErrUserNotFound, refusal.ErrClientNotFound, lookup.ErrSeveral.
func (h handlers) named(ctx context.Context, params operatorapi.ListAuditLogParams) (user, client *uuid.UUID, ok bool, err error) {
	user, client, ok = params.UserId, params.ClientId, true
	if params.Email != nil {
		account, err := h.Accounts.FindUser(ctx, *params.Email)
		if err != nil {
			return nil, nil, false, err
		}
		ok = user == nil || *user == account.ID
		user = &account.ID
	}
	if params.ClientName != nil {
		id, err := h.Finder.ClientNamed(ctx, *params.ClientName)
		if err != nil {
			return nil, nil, false, err
		}
		ok = ok && (client == nil || *client == id)
		client = &id
	}
	return user, client, ok, nil
}

// ListUserSignIns lists what happened to the sign-ins of a user's address.
func (h handlers) ListUserSignIns(
	ctx context.Context, request operatorapi.ListUserSignInsRequestObject,
) (operatorapi.ListUserSignInsResponseObject, error) {
	log, err := h.signInsOf(ctx, request.UserId)
	if err == nil {
		err = h.Audit.RecordSignIns(ctx, h.name(), request.UserId)
	}
	return operatorapi.ListUserSignIns200JSONResponse(log), err
}

// name names this interface in the audit log.
func (h handlers) name() string {
	if h.InProcess {
		return "command_line"
	}
	return "operator_api"
}

// ListSignIns lists what happened to the sign-ins of any address.
func (h handlers) ListSignIns(ctx context.Context, request operatorapi.ListSignInsRequestObject) (operatorapi.ListSignInsResponseObject, error) {
	log, err := h.Accounts.SignIns(ctx, request.Params.Email)
	if err == nil {
		err = h.Audit.RecordSignIns(ctx, h.name(), log.UserID)
	}
	return operatorapi.ListSignIns200JSONResponse(signInLogBody(log)), err
}

// LiftSignInLimits lets the limits of a user's address begin anew.
func (h handlers) LiftSignInLimits(
	ctx context.Context, request operatorapi.LiftSignInLimitsRequestObject,
) (operatorapi.LiftSignInLimitsResponseObject, error) {
	if err := h.Accounts.LiftSignInLimits(ctx, request.UserId); err != nil {
		return nil, err
	}
	log, err := h.signInsOf(ctx, request.UserId)
	return operatorapi.LiftSignInLimits200JSONResponse(log), err
}

func (h handlers) signInsOf(ctx context.Context, userID uuid.UUID) (operatorapi.SignInLog, error) {
	user, err := h.Accounts.GetUser(ctx, userID)
	if err != nil {
		return operatorapi.SignInLog{}, err
	}
	log, err := h.Accounts.SignIns(ctx, user.Email)
	return signInLogBody(log), err
}

func signInLogBody(log account.SignInLog) operatorapi.SignInLog {
	data := each(log.Events, func(e account.SignInEvent) operatorapi.SignInEvent {
		return operatorapi.SignInEvent{
			At: instant(e.At), Event: operatorapi.SignInEventEvent(e.Kind), Waiting: e.Waiting, Until: instantOrNull(e.Until), Detail: e.Detail,
			SignInId: orNull(e.SignIn), Limit: orNull(operatorapi.SignInEventLimit(e.Limit)),
		}
	})
	return operatorapi.SignInLog{CodesWork: log.CodesWork, Data: data, NextCodeAt: instantOrNull(log.NextCodeAt)}
}
