package operator

import (
	"context"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/page"
)

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
	found, err := h.Clients.ChangeRequest(ctx, request.ClientId)
	body, err := h.changeRequestBody(ctx, found, err)
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
		RequestedAt: instant(c.RequestedAt), Changes: []operatorapi.FieldChange{}, AnsweredAt: instantOrNull(c.AnsweredAt), Answer: c.Answer,
	}
	if c.State != client.ChangeOpen {
		body.AnsweredBy = &c.AnsweredBy
		return body, nil
	}
	now, err := h.Clients.Get(ctx, c.ClientID)
	if err != nil {
		return body, err
	}
	wanted, err := c.Wanted(now.Registration)
	body.Changes = each(client.Compare(now.Registration, wanted), func(one client.FieldChange) operatorapi.FieldChange {
		return operatorapi.FieldChange{Field: jsonField(one.Field), Before: one.Before, After: one.After}
	})
	return body, err
}
