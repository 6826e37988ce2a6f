package operator

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/audit"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"github.com/google/uuid"
)

// ListClients lists the clients that a filter finds, or all.
func (h handlers) ListClients(ctx context.Context, request operatorapi.ListClientsRequestObject) (operatorapi.ListClientsResponseObject, error) {
	filter := client.Filter{
		Query: orZero(request.Params.Query), Status: client.Status(orZero(request.Params.Status)),
		CallbackHost: orZero(request.Params.CallbackHost), WebhookHost: orZero(request.Params.WebhookHost),
	}
	rows, next, err := page.Read(page.List{Name: "clients", Filters: filter, Limit: request.Params.Limit, Cursor: request.Params.Cursor},
		func(after page.Key, limit int) ([]client.Client, error) {
			return h.Clients.List(ctx, filter, after, limit)
		},
		client.Client.Key)
	return operatorapi.ListClients200JSONResponse{Data: each(rows, clientBody), NextCursor: next}, err
}

// CreateClient registers a client.
func (h handlers) CreateClient(ctx context.Context, request operatorapi.CreateClientRequestObject) (operatorapi.CreateClientResponseObject, error) {
	registration := client.Registration{Policy: client.DefaultPolicy}
	body := request.Body
	if err := checkWebhookURL(body.WebhookUrl); err != nil {
		return nil, err
	}
	err := change(&registration, operatorapi.ClientChange{
		Name: &body.Name, CallbackUrl: &body.CallbackUrl, Scopes: body.Scopes, RequestsPerMinute: body.RequestsPerMinute,
		Burst: body.Burst, ConcurrentReads: body.ConcurrentReads, WebhookParallel: body.WebhookParallel,
		ContactEmail: body.ContactEmail, HomepageUrl: body.HomepageUrl, PrivacyUrl: body.PrivacyUrl, TermsUrl: body.TermsUrl,
		Logo: body.Logo,
	})
	if err != nil {
		return nil, err
	}
	similar, err := h.Clients.LookAlikes(ctx, registration.Name, uuid.Nil)
	if err != nil {
		return nil, err
	}
	created, secret, err := h.Clients.Create(ctx, registration)
	if err != nil {
		return nil, err
	}
	answer := operatorapi.CreatedClient{
		ClientId: created.ID, Client: clientBody(created), ClientSecret: secret, LookAlikes: each(similar, lookAlikeBody),
	}
	if answer.WebhookSecret, err = h.changeWebhook(ctx, created.ID, body.WebhookUrl); err == nil {
		answer.Client, err = h.detail(ctx, created)
	}
	// The client exists, and only this response has its secret, so an error of its webhook is only logged.
	telemetry.EventOf(ctx).Cause = err
	return operatorapi.CreateClient201JSONResponse{
		Body:    answer,
		Headers: operatorapi.CreateClient201ResponseHeaders{Location: Path + "v1/clients/" + created.ID.String()},
	}, nil
}

// ReadClient returns a client.
func (h handlers) ReadClient(ctx context.Context, request operatorapi.ReadClientRequestObject) (operatorapi.ReadClientResponseObject, error) {
	body, err := h.readClient(ctx, request.ClientId)
	return operatorapi.ReadClient200JSONResponse(body), err
}

// readClient returns a client with its webhook.
func (h handlers) readClient(ctx context.Context, id uuid.UUID) (operatorapi.Client, error) {
	c, err := h.Clients.Get(ctx, id)
	if err != nil {
		return operatorapi.Client{}, err
	}
	return h.detail(ctx, c)
}

func (h handlers) detail(ctx context.Context, c client.Client) (operatorapi.Client, error) {
	body := clientBody(c)
	endpoint, err := h.Webhooks.Endpoint(ctx, c.ID)
	if err == nil {
		body.Webhook = new(webhookBody(endpoint))
	} else if errors.Is(err, webhook.ErrNoEndpoint) {
		err = nil
	}
	return body, err
}

// ChangeClient changes the given fields.
func (h handlers) ChangeClient(ctx context.Context, request operatorapi.ChangeClientRequestObject) (operatorapi.ChangeClientResponseObject, error) {
	// Refuse bad fields, and read the logo, which takes long, before the client's row is locked.
	if err := errors.Join(checkWebhookURL(request.Body.WebhookUrl), change(&client.Registration{}, *request.Body)); err != nil {
		return nil, err
	}
	updated, err := h.Clients.Update(ctx, request.ClientId, func(r *client.Registration) {
		_ = change(r, *request.Body) // checked above
	})
	var similar []client.Client
	if err == nil && request.Body.Name != nil {
		similar, err = h.Clients.LookAlikes(ctx, updated.Name, updated.ID)
	}
	if err != nil {
		return nil, err
	}
	secret, err := h.changeWebhook(ctx, updated.ID, request.Body.WebhookUrl)
	if err != nil {
		return nil, err
	}
	body, err := h.detail(ctx, updated)
	if body.WebhookSecret = secret; secret != nil { // only this answer has it
		telemetry.EventOf(ctx).Cause, err = err, nil
	}
	return operatorapi.ChangeClient200JSONResponse{Client: body, LookAlikes: each(similar, lookAlikeBody)}, err
}

// checkWebhookURL accepts nil, which changes nothing, and an empty URL, which removes the webhook.
func checkWebhookURL(url *string) error {
	if wrong, ok := errors.AsType[refusal.Field](webhook.ValidateURL(orZero(url))); ok && orZero(url) != "" {
		return refusal.Field{Path: "webhook_url", Problem: wrong.Problem}
	}
	return nil
}

// changeWebhook sets or removes a client's webhook. It returns the secret of a new webhook, otherwise nil.
func (h handlers) changeWebhook(ctx context.Context, id uuid.UUID, url *string) (secret *string, err error) {
	switch {
	case url == nil:
		return nil, nil
	case *url != "":
		made, err := h.Webhooks.SetEndpoint(ctx, id, *url)
		return orNull(made), err
	}
	if err := h.Webhooks.RemoveEndpoint(ctx, id); !errors.Is(err, webhook.ErrNoEndpoint) {
		return nil, err
	}
	return nil, nil // there was none
}

func change(r *client.Registration, to operatorapi.ClientChange) error {
	replace(&r.Name, to.Name)
	replace(&r.CallbackURL, to.CallbackUrl)
	replace(&r.ContactEmail, to.ContactEmail)
	replace(&r.HomepageURL, to.HomepageUrl)
	replace(&r.PrivacyURL, to.PrivacyUrl)
	replace(&r.TermsURL, to.TermsUrl)
	replaceNumber(&r.Policy.RequestsPerMinute, to.RequestsPerMinute)
	replaceNumber(&r.Policy.Burst, to.Burst)
	replaceNumber(&r.Policy.ConcurrentReads, to.ConcurrentReads)
	replaceNumber(&r.WebhookParallel, to.WebhookParallel)
	if to.Scopes != nil {
		names := each(to.Scopes, func(s operatorapi.Scope) string { return string(s) })
		scopes, err := scope.Parse(strings.Join(names, " "))
		if err != nil {
			return refusal.Field{Path: "scopes", Problem: "is not as documented"}
		}
		r.Scopes = scopes
	}
	if to.Logo != nil {
		var logo brand.Logo // none for an empty text
		file, err := base64.StdEncoding.Strict().DecodeString(*to.Logo)
		switch {
		case err != nil:
			err = errors.New("is not base64")
		case *to.Logo != "":
			logo, err = brand.ReadLogo(file)
		}
		if err != nil {
			return refusal.Field{Path: "logo", Problem: "must be an SVG or PNG file of at most 64 KiB in base64, and " + err.Error()}
		}
		r.Logo = logo
	}
	return nil
}

func replace[T any](value, changed *T) {
	if changed != nil {
		*value = *changed
	}
}

func replaceNumber(value *int, changed *int32) {
	if changed != nil {
		*value = int(*changed)
	}
}

// DisableClient disables a client.
func (h handlers) DisableClient(ctx context.Context, request operatorapi.DisableClientRequestObject) (operatorapi.DisableClientResponseObject, error) {
	body, err := h.setStatus(ctx, request.ClientId, h.Clients.Disable)
	return operatorapi.DisableClient200JSONResponse(body), err
}

// EnableClient enables a client.
func (h handlers) EnableClient(ctx context.Context, request operatorapi.EnableClientRequestObject) (operatorapi.EnableClientResponseObject, error) {
	body, err := h.setStatus(ctx, request.ClientId, h.Clients.Enable)
	return operatorapi.EnableClient200JSONResponse(body), err
}

// SuspendClient disables a client, and lists its last changes: the latest ten of each kind.
func (h handlers) SuspendClient(
	ctx context.Context, request operatorapi.SuspendClientRequestObject,
) (operatorapi.SuspendClientResponseObject, error) {
	body, err := h.setStatus(ctx, request.ClientId, h.Clients.Disable)
	if err != nil {
		return nil, err
	}
	const within, ofKind, most, part = 30 * 24 * time.Hour, 10, 50, 2000
	filter := audit.Filter{ClientID: request.ClientId, Itself: true, Since: h.Now().Add(-within)}
	var changes []audit.Event
	kinds := map[string]int{} // an event that is sent again is an act, too: a thief may have made thousands of those
	for after := (page.Key{}); len(changes) < most; {
		acts, err := h.Audit.Search(ctx, filter, after, part)
		if err != nil {
			return nil, err
		}
		for _, act := range acts.Events {
			if kinds[act.Action]++; kinds[act.Action] <= ofKind && len(changes) < most {
				changes = append(changes, act)
			}
		}
		if after = acts.Next; after == (page.Key{}) {
			break
		}
	}
	return operatorapi.SuspendClient200JSONResponse{Client: body, Changes: each(changes, auditBody)}, nil
}

// ResumeClient replaces the secrets of a client and of its webhook, and enables it.
func (h handlers) ResumeClient(ctx context.Context, request operatorapi.ResumeClientRequestObject) (operatorapi.ResumeClientResponseObject, error) {
	secret, signing, err := h.Resume(ctx, request.ClientId)
	if err != nil {
		return nil, err
	}
	body, err := h.readClient(ctx, request.ClientId)
	return operatorapi.ResumeClient200JSONResponse{Client: body, ClientSecret: secret, WebhookSecret: orNull(signing)}, err
}

func (h handlers) setStatus(ctx context.Context, id uuid.UUID, set func(context.Context, uuid.UUID) error) (operatorapi.Client, error) {
	if err := set(ctx, id); err != nil {
		return operatorapi.Client{}, err
	}
	return h.readClient(ctx, id)
}

// RotateClientSecret replaces a client's secret.
func (h handlers) RotateClientSecret(
	ctx context.Context, request operatorapi.RotateClientSecretRequestObject,
) (operatorapi.RotateClientSecretResponseObject, error) {
	overlap := time.Duration(orZero(request.Body.OverlapSeconds)) * time.Second
	rotated, err := h.Clients.RotateSecret(ctx, request.ClientId, overlap)
	return operatorapi.RotateClientSecret200JSONResponse{
		ClientId: request.ClientId, ClientSecret: rotated.Secret, OldSecretUntil: instantOrNull(rotated.OverlapUntil),
	}, err
}

// OffboardClient disables a client permanently, and ends its connections.
func (h handlers) OffboardClient(
	ctx context.Context, request operatorapi.OffboardClientRequestObject,
) (operatorapi.OffboardClientResponseObject, error) {
	ended, err := h.Clients.Offboard(ctx, request.ClientId)
	return operatorapi.OffboardClient200JSONResponse{
		ClientId: request.ClientId, Status: operatorapi.OffboardedClientStatus(client.Offboarded), ConnectionsEnded: ended,
	}, err
}

// RevokeClientTokens revokes all connections of a client.
func (h handlers) RevokeClientTokens(
	ctx context.Context, request operatorapi.RevokeClientTokensRequestObject,
) (operatorapi.RevokeClientTokensResponseObject, error) {
	revoked, err := h.OAuth.RevokeTokensOfClient(ctx, request.ClientId)
	return operatorapi.RevokeClientTokens200JSONResponse{ClientId: request.ClientId, ConnectionsRevoked: revoked}, err
}

func clientBody(c client.Client) operatorapi.Client {
	return operatorapi.Client{
		ClientId:          c.ID,
		Name:              c.Name,
		Status:            operatorapi.ClientStatus(c.Status),
		CallbackUrl:       c.CallbackURL,
		Scopes:            scopesBody(c.Scopes),
		RequestsPerMinute: int32(c.Policy.RequestsPerMinute),
		Burst:             int32(c.Policy.Burst),
		ConcurrentReads:   int32(c.Policy.ConcurrentReads),
		WebhookParallel:   int32(c.WebhookParallel),
		ContactEmail:      c.ContactEmail,
		HomepageUrl:       c.HomepageURL,
		PrivacyUrl:        c.PrivacyURL,
		TermsUrl:          c.TermsURL,
		Logo:              c.Logo.Name,
		CreatedAt:         instant(c.CreatedAt),
		OldSecretUntil:    instantOrNull(c.OverlapUntil),
	}
}

func lookAlikeBody(c client.Client) operatorapi.LookAlike {
	return operatorapi.LookAlike{ClientId: c.ID, Name: c.Name}
}

func scopesBody(scopes scope.Set) []operatorapi.Scope {
	return each(scopes.Names(), func(name string) operatorapi.Scope { return operatorapi.Scope(name) })
}

// instantOrNull returns null for the zero time.
func instantOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(instant(t))
}

// ListChangeRequests lists the requests that are open.
func (h handlers) ListChangeRequests(
	ctx context.Context, request operatorapi.ListChangeRequestsRequestObject,
) (operatorapi.ListChangeRequestsResponseObject, error) {
	rows, next, err := page.Read(page.List{Name: "change requests", Limit: request.Params.Limit, Cursor: request.Params.Cursor},
		func(after page.Key, limit int) ([]client.OpenChange, error) {
			return h.Clients.OpenChanges(ctx, after, limit)
		},
		client.OpenChange.Key)
	return operatorapi.ListChangeRequests200JSONResponse{Data: each(rows, func(c client.OpenChange) operatorapi.OpenChangeRequest {
		return operatorapi.OpenChangeRequest{
			RequestId: c.ID, ClientId: c.ClientID, Name: c.Name, RequestedBy: c.RequestedBy, RequestedAt: instant(c.RequestedAt),
		}
	}), NextCursor: next}, err
}

// ReadChangeRequest returns the last request of a client.
func (h handlers) ReadChangeRequest(
	ctx context.Context, request operatorapi.ReadChangeRequestRequestObject,
) (operatorapi.ReadChangeRequestResponseObject, error) {
	if err := h.known(ctx, oauth.Filter{ClientID: &request.ClientId}); err != nil {
		return nil, err
	}
	change, err := h.Clients.ChangeRequest(ctx, request.ClientId)
	body, err := h.changeRequestBody(ctx, change, err)
	return operatorapi.ReadChangeRequest200JSONResponse(body), err
}

// ApproveChangeRequest makes what a request asks for.
func (h handlers) ApproveChangeRequest(
	ctx context.Context, request operatorapi.ApproveChangeRequestRequestObject,
) (operatorapi.ApproveChangeRequestResponseObject, error) {
	answered, err := h.Clients.ApproveChange(ctx, request.ClientId, request.Body.RequestId)
	body, err := h.changeRequestBody(ctx, answered, err)
	return operatorapi.ApproveChangeRequest200JSONResponse(body), err
}

// RefuseChangeRequest answers a request.
func (h handlers) RefuseChangeRequest(
	ctx context.Context, request operatorapi.RefuseChangeRequestRequestObject,
) (operatorapi.RefuseChangeRequestResponseObject, error) {
	answered, err := h.Clients.RefuseChange(ctx, request.ClientId, request.Body.RequestId, request.Body.Answer)
	body, err := h.changeRequestBody(ctx, answered, err)
	return operatorapi.RefuseChangeRequest200JSONResponse(body), err
}

// changeRequestBody returns a request with what it would change now. It returns an error that comes instead of the request.
func (h handlers) changeRequestBody(ctx context.Context, c client.ChangeRequest, err error) (operatorapi.ChangeRequest, error) {
	if err != nil {
		return operatorapi.ChangeRequest{}, err
	}
	body := operatorapi.ChangeRequest{
		RequestId: c.ID, ClientId: c.ClientID, State: operatorapi.ChangeRequestState(c.State), RequestedBy: c.RequestedBy,
		RequestedAt: instant(c.RequestedAt), Changes: []operatorapi.FieldChange{}, LookAlikes: []operatorapi.LookAlike{},
		AnsweredAt: instantOrNull(c.AnsweredAt), Answer: c.Answer,
	}
	if c.State != client.ChangeOpen {
		body.AnsweredBy = &c.AnsweredBy
		return body, nil
	}
	current, err := h.Clients.Get(ctx, c.ClientID)
	if err != nil {
		return body, err
	}
	wanted, err := c.Wanted(current.Registration)
	if err == nil && wanted.Name != current.Name { // before the operator approves it
		var similar []client.Client
		similar, err = h.Clients.LookAlikes(ctx, wanted.Name, current.ID)
		body.LookAlikes = each(similar, lookAlikeBody)
	}
	body.Changes = each(client.Compare(current.Registration, wanted), func(change client.FieldChange) operatorapi.FieldChange {
		return operatorapi.FieldChange{Field: jsonField(change.Field), Before: change.Before, After: change.After}
	})
	return body, err
}
