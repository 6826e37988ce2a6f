package operator

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
	openapi_types "github.com/oapi-codegen/runtime/types"
)

// FindConnections lists the connections that match filters.
func (h handlers) FindConnections(
	ctx context.Context, request operatorapi.FindConnectionsRequestObject,
) (operatorapi.FindConnectionsResponseObject, error) {
	params := request.Params
	filter := oauth.Filter{UserID: params.UserId, ClientID: params.ClientId}
	if err := h.known(ctx, filter); err != nil {
		return nil, err
	}
	if params.Email != nil {
		user, err := h.Accounts.FindUser(ctx, *params.Email)
		if err != nil {
			return nil, err
		}
		if filter.UserID != nil && *filter.UserID != user.ID {
			return operatorapi.FindConnections200JSONResponse{Data: []operatorapi.FoundConnection{}}, nil // no user matches both
		}
		filter.UserID = &user.ID
	}
	rows, next, err := page.Read(page.List{Name: "connections", Filters: filter, Limit: params.Limit, Cursor: params.Cursor},
		func(after page.Key, limit int) ([]oauth.Connection, error) {
			return h.OAuth.Connections(ctx, filter, after, limit)
		}, oauth.Connection.Key)
	return operatorapi.FindConnections200JSONResponse{Data: each(rows, foundConnectionBody), NextCursor: next}, err
}

// known returns an error if the user or the client of a filter does not exist.
func (h handlers) known(ctx context.Context, filter oauth.Filter) error {
	if filter.UserID != nil {
		if _, err := h.Accounts.GetUser(ctx, *filter.UserID); err != nil {
			return err
		}
	}
	if filter.ClientID != nil {
		if _, err := h.Clients.Get(ctx, *filter.ClientID); err != nil {
			return err
		}
	}
	return nil
}

// foundConnectionBody is connectionBody with the user.
func foundConnectionBody(connection oauth.Connection) operatorapi.FoundConnection {
	body := connectionBody(connection)
	return operatorapi.FoundConnection{
		UserId:            connection.UserID,
		ClientId:          body.ClientId,
		ClientName:        body.ClientName,
		GrantId:           body.GrantId,
		ConnectionVersion: body.ConnectionVersion,
		State:             operatorapi.FoundConnectionState(body.State),
		Scopes:            body.Scopes,
		HistoryFrom:       body.HistoryFrom,
		AuthorizedAt:      body.AuthorizedAt,
		LastReadAt:        body.LastReadAt,
		LastReads:         body.LastReads,
	}
}

// ListAdjustments lists a user's corrections.
func (h handlers) ListAdjustments(
	ctx context.Context, request operatorapi.ListAdjustmentsRequestObject,
) (operatorapi.ListAdjustmentsResponseObject, error) {
	if _, err := h.Accounts.GetUser(ctx, request.UserId); err != nil {
		return nil, err
	}
	rows, next, err := page.Read(page.List{Name: "adjustments", Filters: request.UserId, Limit: request.Params.Limit, Cursor: request.Params.Cursor},
		func(after page.Key, limit int) ([]activity.Adjustment, error) {
			return h.Activity.Adjustments(ctx, request.UserId, after, limit)
		}, activity.Adjustment.Key)
	return operatorapi.ListAdjustments200JSONResponse{Data: each(rows, adjustmentBody), NextCursor: next}, err
}

// CreateAdjustment corrects a day of a user.
func (h handlers) CreateAdjustment(
	ctx context.Context, request operatorapi.CreateAdjustmentRequestObject,
) (operatorapi.CreateAdjustmentResponseObject, error) {
	record := activity.AdjustmentRecord{
		UserID: request.UserId, Date: request.Body.Date.Time, Delta: int(request.Body.Delta), Note: request.Body.Note,
	}
	if id := request.Body.AdjustmentId; id != nil {
		if *id == uuid.Nil { // it means no id to the domain
			return nil, refusal.Field{Path: "adjustment_id", Problem: "must not be the nil UUID"}
		}
		record.ID = *id
	}
	stored, err := h.Activity.Adjust(ctx, activity.Adjusted(request.Body.Dataset), record)
	return operatorapi.CreateAdjustment200JSONResponse(adjustmentBody(stored)), err
}

// RemoveAdjustment removes a user's corrections with an id, at most one of each dataset.
func (h handlers) RemoveAdjustment(
	ctx context.Context, request operatorapi.RemoveAdjustmentRequestObject,
) (operatorapi.RemoveAdjustmentResponseObject, error) {
	var result operatorapi.Removed
	for _, dataset := range []activity.Adjusted{activity.AdjustedSteps, activity.AdjustedCycling} {
		removed, err := h.Activity.RemoveAdjustment(ctx, dataset, request.UserId, request.AdjustmentId)
		if err != nil {
			return nil, err
		}
		result.Rows++
		if removed {
			result.Removed++
		}
	}
	result.Unchanged = result.Rows - result.Removed
	return operatorapi.RemoveAdjustment200JSONResponse(result), nil
}

func adjustmentBody(a activity.Adjustment) operatorapi.Adjustment {
	return operatorapi.Adjustment{
		UserId:       a.UserID,
		AdjustmentId: a.ID,
		Dataset:      operatorapi.AdjustedDataset(a.Dataset),
		Date:         openapi_types.Date{Time: a.Date},
		Delta:        int32(a.Delta),
		Note:         a.Note,
		CreatedAt:    instant(a.CreatedAt),
	}
}

// ListAuditLog lists entries of the audit log.
func (h handlers) ListAuditLog(ctx context.Context, request operatorapi.ListAuditLogRequestObject) (operatorapi.ListAuditLogResponseObject, error) {
	params := request.Params
	filter := audit.Filter{Actor: orZero(params.Actor), Action: orZero(params.Action)}
	var since, until error
	filter.Since, since = given(params.Since)
	filter.Until, until = given(params.Until)
	if err := cmp.Or(since, until); err != nil {
		return nil, err
	}
	user, client, ok, err := h.named(ctx, params)
	if err != nil {
		return nil, err
	}
	if !ok || isNil(user) || isNil(client) { // no entry matches
		return operatorapi.ListAuditLog200JSONResponse{Data: []operatorapi.AuditEvent{}}, nil
	}
	filter.UserID, filter.ClientID = orZero(user), orZero(client)
	rows, next, err := page.Search(page.List{Name: "audit log", Filters: filter, Limit: params.Limit, Cursor: params.Cursor},
		func(after page.Key, limit int) ([]audit.Event, page.Key, error) {
			var err error
			switch {
			case !h.InProcess:
				err = h.Audit.RecordListing(ctx, h.Now(), h.name()) // once a minute for each operator
			case params.Cursor == nil:
				err = h.Audit.RecordExport(ctx, h.name(), filter) // once for each list
			}
			if err != nil {
				return nil, page.Key{}, err
			}
			events, err := h.Audit.List(ctx, filter, after, limit)
			return events.Events, events.Next, err
		})
	return operatorapi.ListAuditLog200JSONResponse{Data: each(rows, auditBody), NextCursor: next}, err
}

// given reads an instant of a query, zero if it is missing. An impossible date, such as the 30th of February, is malformed.
func given(text *operatorapi.GivenInstant) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, *text)
	if err != nil || at.Year() < 1 {
		return time.Time{}, contract.ErrMalformed
	}
	return at, nil
}

func auditBody(e audit.Event) operatorapi.AuditEvent {
	body := operatorapi.AuditEvent{Id: e.ID, At: instant(e.At), Actor: e.Actor, Action: e.Action, Detail: e.Detail,
		ClientId: orNull(e.ClientID), UserId: orNull(e.UserID)}
	if e.ConnectionVersion != 0 {
		body.ConnectionVersion = new(strconv.FormatInt(e.ConnectionVersion, 10))
	}
	return body
}

// ListConnections lists the clients to which a user is connected.
func (h handlers) ListConnections(
	ctx context.Context, request operatorapi.ListConnectionsRequestObject,
) (operatorapi.ListConnectionsResponseObject, error) {
	if _, err := h.Accounts.GetUser(ctx, request.UserId); err != nil {
		return nil, err
	}
	connections, err := h.OAuth.ConnectionsOfUser(ctx, request.UserId)
	return operatorapi.ListConnections200JSONResponse{Data: each(connections, connectionBody)}, err
}

func connectionBody(connection oauth.Connection) operatorapi.Connection {
	body := operatorapi.Connection{
		ClientId:          connection.Partner.ClientID,
		ClientName:        connection.Partner.Name,
		GrantId:           connection.GrantID,
		ConnectionVersion: strconv.FormatInt(connection.Version, 10),
		State:             operatorapi.ConnectionState(connection.State),
		Scopes:            scopesBody(connection.Scopes),
		HistoryFrom:       openapi_types.Date{Time: connection.HistoryFrom},
		AuthorizedAt:      instant(connection.AuthorizedAt),
	}
	body.LastReads = each(connection.Reads, func(read oauth.Read) operatorapi.LastRead {
		last := operatorapi.LastRead{At: instant(read.Hour())}
		if read.Of != 0 {
			last.Scope = new(operatorapi.Scope(read.Of.String()))
		}
		return last
	})
	if len(body.LastReads) > 0 {
		body.LastReadAt = &body.LastReads[0].At
	}
	return body
}

// DisconnectUser ends a connection.
func (h handlers) DisconnectUser(
	ctx context.Context, request operatorapi.DisconnectUserRequestObject,
) (operatorapi.DisconnectUserResponseObject, error) {
	return operatorapi.DisconnectUser204Response{}, h.OAuth.DisconnectByOperator(ctx, request.UserId, request.ClientId)
}

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
	sessions, err := h.Portal.Sessions(ctx, request.ClientId)
	return operatorapi.ListPortalSessions200JSONResponse{Data: each(sessions, portalBody)}, err
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
