package operator

import (
	"context"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/oauth"
)

// CreatePortalLink creates a link to a client's own pages.
func (h handlers) CreatePortalLink(
	ctx context.Context, request operatorapi.CreatePortalLinkRequestObject,
) (operatorapi.CreatePortalLinkResponseObject, error) {
	link := portal.NewLink{
		ClientID: request.ClientId, Name: orZero(request.Body.Name), ReadOnly: orZero(request.Body.ReadOnly), Replace: orZero(request.Body.Replace),
		Valid: portal.MaxValid,
	}
	if seconds := request.Body.ValidSeconds; seconds != nil {
		link.Valid = time.Duration(*seconds) * time.Second
	}
	made, secret, err := h.Portal.CreateLink(ctx, link)
	return operatorapi.CreatePortalLink201JSONResponse{Url: h.BaseURL + portal.LinkPath(made.ClientID, secret), Session: portalBody(made)}, err
}

// ListPortalSessions lists a client's links and sessions.
func (h handlers) ListPortalSessions(
	ctx context.Context, request operatorapi.ListPortalSessionsRequestObject,
) (operatorapi.ListPortalSessionsResponseObject, error) {
	if err := h.known(ctx, oauth.Filter{ClientID: &request.ClientId}); err != nil {
		return nil, err
	}
	found, err := h.Portal.Sessions(ctx, request.ClientId)
	return operatorapi.ListPortalSessions200JSONResponse{Data: each(found, portalBody)}, err
}

// EndPortalSessions ends all links and sessions of a client.
func (h handlers) EndPortalSessions(
	ctx context.Context, request operatorapi.EndPortalSessionsRequestObject,
) (operatorapi.EndPortalSessionsResponseObject, error) {
	if err := h.known(ctx, oauth.Filter{ClientID: &request.ClientId}); err != nil {
		return nil, err
	}
	return operatorapi.EndPortalSessions204Response{}, h.Portal.EndAll(ctx, request.ClientId)
}

// EndPortalSession ends a link or a session.
func (h handlers) EndPortalSession(
	ctx context.Context, request operatorapi.EndPortalSessionRequestObject,
) (operatorapi.EndPortalSessionResponseObject, error) {
	if err := h.known(ctx, oauth.Filter{ClientID: &request.ClientId}); err != nil {
		return nil, err
	}
	return operatorapi.EndPortalSession204Response{}, h.Portal.End(ctx, request.ClientId, request.SessionId)
}

func portalBody(s portal.Session) operatorapi.PortalSession {
	return operatorapi.PortalSession{
		SessionId: s.ID, Name: s.Name, ReadOnly: s.ReadOnly, CreatedBy: s.CreatedBy, CreatedAt: instant(s.CreatedAt), OpenedAt: instantOrNull(s.OpenedAt),
		ExpiresAt: instant(s.ExpiresAt),
	}
}
