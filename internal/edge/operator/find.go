package operator

import (
	"context"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/domain/webhook"
)

// Find returns what a text names.
func (h handlers) Find(ctx context.Context, request operatorapi.FindRequestObject) (operatorapi.FindResponseObject, error) {
	found, err := h.Finder.Find(ctx, request.Params.Text)
	return operatorapi.Find200JSONResponse{Data: each(found, foundBody)}, err
}

func foundBody(found lookup.Found) operatorapi.Found {
	body := operatorapi.Found{
		Kind: operatorapi.FoundKind(found.Kind), UserId: orNull(found.UserID), ClientId: orNull(found.ClientID), Name: found.Name,
		At: instantOrNull(found.At), Detail: found.Detail,
	}
	if found.EventID != uuid.Nil {
		body.WebhookId = new(webhook.Event{ID: found.EventID}.MessageID())
	}
	return body
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
		found, err := h.Accounts.FindUser(ctx, *params.Email)
		if err != nil {
			return nil, nil, false, err
		}
		ok = user == nil || *user == found.ID
		user = &found.ID
	}
	if params.ClientName != nil {
		found, err := h.Finder.ClientNamed(ctx, *params.ClientName)
		if err != nil {
			return nil, nil, false, err
		}
		ok = ok && (client == nil || *client == found)
		client = &found
	}
	return user, client, ok, nil
}
