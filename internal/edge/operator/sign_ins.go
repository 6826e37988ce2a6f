package operator

import (
	"context"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/account"
)

// ListUserSignIns lists what happened to the sign-ins of a user's address.
func (h handlers) ListUserSignIns(
	ctx context.Context, request operatorapi.ListUserSignInsRequestObject,
) (operatorapi.ListUserSignInsResponseObject, error) {
	log, err := h.signInsOf(ctx, request.UserId)
	return operatorapi.ListUserSignIns200JSONResponse(log), err
}

// ListSignIns lists what happened to the sign-ins of any address.
func (h handlers) ListSignIns(
	ctx context.Context, request operatorapi.ListSignInsRequestObject,
) (operatorapi.ListSignInsResponseObject, error) {
	found, err := h.Accounts.SignIns(ctx, request.Params.Email)
	return operatorapi.ListSignIns200JSONResponse(signInLogBody(found)), err
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
	found, err := h.Accounts.SignIns(ctx, user.Email)
	return signInLogBody(found), err
}

func signInLogBody(found account.SignInLog) operatorapi.SignInLog {
	data := each(found.Events, func(e account.SignInEvent) operatorapi.SignInEvent {
		return operatorapi.SignInEvent{
			At: instant(e.At), Event: operatorapi.SignInEventEvent(e.Kind), Waiting: e.Waiting, Until: instantOrNull(e.Until), Detail: e.Detail,
			SignInId: orNull(e.SignIn), Limit: orNull(operatorapi.SignInEventLimit(e.Limit)),
		}
	})
	return operatorapi.SignInLog{CodesWork: found.CodesWork, Data: data, NextCodeAt: instantOrNull(found.NextCodeAt)}
}
