package operator

import (
	"context"
	"errors"
	"strconv"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
)

// PreviewUser tells what an act on a user would end or delete.
func (h handlers) PreviewUser(ctx context.Context, request operatorapi.PreviewUserRequestObject) (operatorapi.PreviewUserResponseObject, error) {
	user, err := h.Accounts.GetUser(ctx, request.UserId)
	if err != nil {
		return nil, err
	}
	p, err := h.EffectsOnUser(ctx, user)
	return operatorapi.PreviewUser200JSONResponse{
		UserId: user.ID, Email: user.Email, Connections: int64(p.Connections), Days: int64(p.Stored.Days), Rides: int64(p.Stored.Rides),
		Corrections: int64(p.Stored.Adjustments), Sessions: int64(p.Sessions), SignIns: int64(p.SignIns), Requests: p.Requests, Browsers: int64(p.Browsers),
	}, err
}

// PreviewConnection tells what disconnecting a company would end.
func (h handlers) PreviewConnection(
	ctx context.Context, request operatorapi.PreviewConnectionRequestObject,
) (operatorapi.PreviewConnectionResponseObject, error) {
	user, err := h.Accounts.GetUser(ctx, request.UserId)
	if err != nil {
		return nil, err
	}
	if err := h.known(ctx, oauth.Filter{ClientID: &request.ClientId}); err != nil {
		return nil, err
	}
	connection, err := h.OAuth.Connection(ctx, user.ID, request.ClientId)
	if err != nil {
		return nil, err
	}
	body := connectionBody(connection)
	event, err := h.EventTo(ctx, request.ClientId)
	return operatorapi.PreviewConnection200JSONResponse{
		UserId: user.ID, Email: user.Email, ClientId: body.ClientId, ClientName: body.ClientName, State: operatorapi.ConnectionPreviewState(body.State),
		ConnectionVersion: strconv.FormatInt(connection.Version, 10), Scopes: body.Scopes, HistoryFrom: openapi_types.Date{Time: connection.HistoryFrom},
		Refreshes: connection.Refreshes, Event: operatorapi.ConnectionPreviewEvent(event),
	}, err
}

// PreviewAdjustment tells what becomes of the days if the corrections with an id are removed.
func (h handlers) PreviewAdjustment(
	ctx context.Context, request operatorapi.PreviewAdjustmentRequestObject,
) (operatorapi.PreviewAdjustmentResponseObject, error) {
	user, err := h.Accounts.GetUser(ctx, request.UserId)
	if err != nil {
		return nil, err
	}
	body := operatorapi.PreviewAdjustment200JSONResponse{Data: []operatorapi.RemovalPreview{}}
	for _, dataset := range []activity.Adjusted{activity.AdjustedSteps, activity.AdjustedCycling} {
		correction, err := h.Activity.GetAdjustment(ctx, dataset, user.ID, request.AdjustmentId)
		if errors.Is(err, activity.ErrNoAdjustment) {
			continue
		} else if err != nil {
			return nil, err
		}
		p, err := h.EffectsOfCorrection(ctx, user, dataset, correction.Date, -correction.Delta)
		if err != nil {
			return nil, err
		}
		removal := operatorapi.RemovalPreview{
			Dataset: operatorapi.AdjustedDataset(dataset), Date: openapi_types.Date{Time: correction.Date}, Delta: int32(correction.Delta), //nolint:gosec // bounded
			Note: correction.Note, Readers: int64(p.Readers),
		}
		if p.Before.IsRecorded {
			removal.Before, removal.After = new(p.Before.Total()), new(p.After.Total())
		}
		body.Data = append(body.Data, removal)
	}
	return body, nil
}

// PreviewClient tells what an act on a client would end or send.
func (h handlers) PreviewClient(
	ctx context.Context, request operatorapi.PreviewClientRequestObject,
) (operatorapi.PreviewClientResponseObject, error) {
	partner := client.Client{ID: webhook.Operator, Registration: client.Registration{Name: "operator"}, Status: client.Active}
	if request.ClientId != webhook.Operator {
		var err error
		if partner, err = h.Clients.Get(ctx, request.ClientId); err != nil {
			return nil, err
		}
	}
	p, err := h.EffectsOnClient(ctx, partner)
	return operatorapi.PreviewClient200JSONResponse{
		ClientId: partner.ID, Name: partner.Name, Status: operatorapi.ClientPreviewStatus(partner.Status), Connections: countsBody(p.Connections),
		WaitingEvents: int64(p.Waiting), FailedEvents: int64(p.Failed), Event: operatorapi.ClientPreviewEvent(p.Event),
		PortalLinks: int64(p.Links), PortalSessions: int64(p.Sessions),
		OldSecretUntil: instantOrNull(p.OlderSecret), OldWebhookSecretUntil: instantOrNull(p.OlderWebhookSecret),
	}, err
}
