package operator

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/telemetry"
)

// ReadWebhook returns a client's webhook.
func (h handlers) ReadWebhook(ctx context.Context, request operatorapi.ReadWebhookRequestObject) (operatorapi.ReadWebhookResponseObject, error) {
	body, err := h.actOnEndpoint(ctx, request.ClientId, h.Webhooks.Endpoint)
	return operatorapi.ReadWebhook200JSONResponse(body), err
}

// receiver refuses a client that does not exist. Nil: none is given.
func (h handlers) receiver(ctx context.Context, id *operatorapi.Id) error {
	if id != nil && *id == webhook.Operator {
		return nil
	}
	return h.known(ctx, oauth.Filter{ClientID: id})
}

func (h handlers) actOnEndpoint(
	ctx context.Context, id operatorapi.Id, act func(context.Context, uuid.UUID) (webhook.Endpoint, error),
) (operatorapi.Webhook, error) {
	if err := h.receiver(ctx, &id); err != nil {
		return operatorapi.Webhook{}, err
	}
	endpoint, err := act(ctx, id)
	return webhookBody(endpoint), err
}

func webhookBody(w webhook.Endpoint) operatorapi.Webhook {
	return operatorapi.Webhook{
		Url:           w.URL,
		CreatedAt:     instant(w.CreatedAt),
		StoppedAt:     instantOrNull(w.StoppedAt),
		PausedAt:      instantOrNull(w.PausedAt),
		RotatingUntil: instantOrNull(w.RotatingUntil),
	}
}

// SetWebhook sets the address of a client's webhook.
func (h handlers) SetWebhook(ctx context.Context, request operatorapi.SetWebhookRequestObject) (operatorapi.SetWebhookResponseObject, error) {
	secret, err := h.Webhooks.SetEndpoint(ctx, request.ClientId, request.Body.Url)
	if err != nil {
		return nil, err
	}
	body, err := h.actOnEndpoint(ctx, request.ClientId, h.Webhooks.Endpoint)
	if err != nil && secret != "" { // only this answer has it
		telemetry.EventOf(ctx).Cause, err = err, nil
		body = operatorapi.Webhook{Url: request.Body.Url, CreatedAt: instant(h.Now())}
	}
	return operatorapi.SetWebhook200JSONResponse{ClientId: request.ClientId, Webhook: body, WebhookSecret: orNull(secret)}, err
}

// RotateWebhookSecret replaces the secret that signs a client's events.
func (h handlers) RotateWebhookSecret(
	ctx context.Context, request operatorapi.RotateWebhookSecretRequestObject,
) (operatorapi.RotateWebhookSecretResponseObject, error) {
	body, err := h.actOnEndpoint(ctx, request.ClientId, h.Webhooks.Endpoint)
	if err != nil {
		return nil, err
	}
	secret, err := h.Webhooks.RotateSecret(ctx, request.ClientId, webhook.SecretOverlap, nil)
	body.RotatingUntil = new(instant(h.Now().Add(webhook.SecretOverlap))) // not read, which could fail: only this answer has the secret
	return operatorapi.RotateWebhookSecret200JSONResponse{ClientId: request.ClientId, Webhook: body, WebhookSecret: &secret}, err
}

// RemoveWebhook removes a client's webhook.
func (h handlers) RemoveWebhook(
	ctx context.Context, request operatorapi.RemoveWebhookRequestObject,
) (operatorapi.RemoveWebhookResponseObject, error) {
	if err := h.receiver(ctx, &request.ClientId); err != nil {
		return nil, err
	}
	return operatorapi.RemoveWebhook204Response{}, h.Webhooks.RemoveEndpoint(ctx, request.ClientId)
}

// PauseWebhook has a client's events wait.
func (h handlers) PauseWebhook(ctx context.Context, request operatorapi.PauseWebhookRequestObject) (operatorapi.PauseWebhookResponseObject, error) {
	body, err := h.actOnEndpoint(ctx, request.ClientId, h.Webhooks.Pause)
	return operatorapi.PauseWebhook200JSONResponse(body), err
}

// ResumeWebhook sends what waits.
func (h handlers) ResumeWebhook(
	ctx context.Context, request operatorapi.ResumeWebhookRequestObject,
) (operatorapi.ResumeWebhookResponseObject, error) {
	body, err := h.actOnEndpoint(ctx, request.ClientId, h.Webhooks.Resume)
	return operatorapi.ResumeWebhook200JSONResponse(body), err
}

// TestWebhook sends a sample event.
func (h handlers) TestWebhook(ctx context.Context, request operatorapi.TestWebhookRequestObject) (operatorapi.TestWebhookResponseObject, error) {
	if err := h.receiver(ctx, &request.ClientId); err != nil {
		return nil, err
	}
	attempt, err := h.Webhooks.SendSample(ctx, request.ClientId, string(request.Body.Type))
	return operatorapi.TestWebhook200JSONResponse{
		ClientId: request.ClientId, Type: request.Body.Type, Accepted: attempt.Success(), Delivered: attempt.Success(),
		Attempt: attemptBody(attempt),
	}, err
}

// ListWebhookEvents lists sent and pending events.
func (h handlers) ListWebhookEvents(
	ctx context.Context, request operatorapi.ListWebhookEventsRequestObject,
) (operatorapi.ListWebhookEventsResponseObject, error) {
	params := request.Params
	if err := h.receiver(ctx, params.ClientId); err != nil {
		return nil, err
	}
	filter := webhook.Filter{ClientID: orZero(params.ClientId), State: webhook.State(orZero(params.State))}
	if params.GrantId != nil {
		user, client, err := h.Finder.OfGrant(ctx, *params.GrantId)
		if err != nil {
			return nil, err
		}
		filter.UserID, filter.GrantID = user, *params.GrantId
		if client == uuid.Nil || !slices.Contains([]uuid.UUID{uuid.Nil, client, webhook.Operator}, filter.ClientID) { // no event matches
			return operatorapi.ListWebhookEvents200JSONResponse{Data: []operatorapi.WebhookEvent{}}, nil
		}
	}
	rows, next, err := page.Read(page.List{Name: "webhook events", Filters: filter, Limit: params.Limit, Cursor: params.Cursor},
		func(after page.Key, limit int) ([]webhook.Event, error) {
			filter.After, filter.Limit = after, limit
			return h.Webhooks.Events(ctx, filter)
		}, webhook.Event.Key)
	return operatorapi.ListWebhookEvents200JSONResponse{Data: each(rows, eventBody), NextCursor: next}, err
}

// ReadWebhookEvent returns an event with its attempts.
func (h handlers) ReadWebhookEvent(
	ctx context.Context, request operatorapi.ReadWebhookEventRequestObject,
) (operatorapi.ReadWebhookEventResponseObject, error) {
	id, err := webhook.ParseEventID(request.WebhookId)
	if err != nil {
		return nil, err
	}
	event, err := h.Webhooks.Event(ctx, id)
	if err != nil {
		return nil, err
	}
	sent, err := event.Body()
	body := eventBody(event)
	return operatorapi.ReadWebhookEvent200JSONResponse{
		WebhookId: body.WebhookId, ClientId: body.ClientId, Type: body.Type, State: body.State,
		Event: body, Body: string(sent), Log: each(event.Attempts, attemptBody),
	}, err
}

// ReplayWebhookEvent sends an event again.
func (h handlers) ReplayWebhookEvent(
	ctx context.Context, request operatorapi.ReplayWebhookEventRequestObject,
) (operatorapi.ReplayWebhookEventResponseObject, error) {
	id, err := webhook.ParseEventID(request.WebhookId)
	if err != nil {
		return nil, err
	}
	if err := h.Webhooks.Replay(ctx, id); errors.Is(err, webhook.ErrNoEndpoint) {
		return nil, errNotReplayable
	} else if err != nil {
		return nil, err
	}
	event, err := h.Webhooks.Event(ctx, id)
	return operatorapi.ReplayWebhookEvent200JSONResponse(eventBody(event)), err
}

// eventBody returns an event without its attempts.
func eventBody(e webhook.Event) operatorapi.WebhookEvent {
	body := operatorapi.WebhookEvent{
		WebhookId:         e.MessageID(),
		ClientId:          e.ClientID,
		Type:              operatorapi.WebhookType(e.Type),
		GrantId:           e.GrantID,
		ConnectionVersion: strconv.FormatInt(e.ConnectionVersion, 10),
		Datasets:          []operatorapi.WebhookEventDatasets{},
		CreatedAt:         instant(e.CreatedAt),
		State:             operatorapi.WebhookState(e.State),
		Attempts:          int32(e.AttemptCount),
		NextAttemptAt:     instantOrNull(e.NextAttemptAt),
	}
	if e.ClientID == webhook.Operator {
		body.AboutClientId = &e.AboutClientID
	}
	body.Reason = orNull(e.Reason)
	if e.Type == webhook.ActivityUpdated {
		body.From, body.To = &openapi_types.Date{Time: e.FirstDate}, &openapi_types.Date{Time: e.LastDate}
	}
	body.Datasets = each(e.Datasets.Names(), func(name string) operatorapi.WebhookEventDatasets {
		return operatorapi.WebhookEventDatasets(strings.TrimSuffix(name, ":read"))
	})
	return body
}

func attemptBody(a webhook.Attempt) operatorapi.WebhookAttempt {
	return operatorapi.WebhookAttempt{
		Attempt:          int32(a.Number),
		At:               instant(a.At),
		WebhookTimestamp: a.At.Unix(),
		DurationMs:       int64(a.Duration / time.Millisecond),
		Status:           orNull(a.Status),
		Fault:            a.Fault,
		Response:         strings.ToValidUTF8(string(a.Response), "\uFFFD"),
	}
}
