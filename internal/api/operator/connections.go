package operator

import (
	"context"
	"strconv"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/oauth"
)

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
	if connection.LastReadAt != nil {
		lastRead := instant(*connection.LastReadAt)
		body.LastReadAt = &lastRead
	}
	return body
}

// DisconnectUser ends a connection.
func (h handlers) DisconnectUser(
	ctx context.Context, request operatorapi.DisconnectUserRequestObject,
) (operatorapi.DisconnectUserResponseObject, error) {
	return operatorapi.DisconnectUser204Response{}, h.OAuth.DisconnectByOperator(ctx, request.UserId, request.ClientId)
}
