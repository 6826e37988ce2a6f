package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/scope"
	"connect-svc/internal/telemetry"
)

// handlers implement the generated interface, one method an operation. The guard has been passed before.
type handlers struct {
	*edge
}

var _ partnerapi.StrictServerInterface = handlers{}

// noCaching are the headers of every answer (specification 4).
var noCaching = partnerapi.RequestToken200ResponseHeaders{
	CacheControl:   "no-store",
	Pragma:         "no-cache",
	ReferrerPolicy: "no-referrer",
}

// actTime bounds an act that the caller cannot call off.
const actTime = 12 * time.Second

// acting is the context of token, revoke and disconnect: a caller who hangs up does not stop what has begun. Otherwise
// a thief could replay a refresh token and be gone before the connection is revoked (specification 3.2).
func acting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), actTime)
}

// GetAuthorizationServerMetadata is specification 4.1.
func (h handlers) GetAuthorizationServerMetadata(
	context.Context, partnerapi.GetAuthorizationServerMetadataRequestObject,
) (partnerapi.GetAuthorizationServerMetadataResponseObject, error) {
	return jsonAnswer{body: h.metadata}, nil
}

// metadata is the body of discovery, which is the same for all.
func metadata(baseURL string) ([]byte, error) {
	basic := []partnerapi.ClientAuthenticationMethod{partnerapi.ClientAuthenticationMethodClientSecretBasic}
	var scopes []partnerapi.Scope
	for _, name := range scope.All.Names() {
		scopes = append(scopes, partnerapi.Scope(name))
	}
	return json.Marshal(partnerapi.AuthorizationServerMetadata{
		Issuer:                                 baseURL,
		AuthorizationEndpoint:                  baseURL + "/oauth/authorize",
		TokenEndpoint:                          baseURL + "/oauth/token",
		RevocationEndpoint:                     baseURL + "/oauth/revoke",
		TokenEndpointAuthMethodsSupported:      basic,
		RevocationEndpointAuthMethodsSupported: basic,
		CodeChallengeMethodsSupported:          []partnerapi.CodeChallengeMethod{partnerapi.CodeChallengeMethodS256},
		ScopesSupported:                        scopes,
		ResponseTypesSupported:                 []partnerapi.ResponseType{partnerapi.ResponseTypeCode},
		GrantTypesSupported: []partnerapi.GrantType{
			partnerapi.GrantTypeAuthorizationCode, partnerapi.GrantTypeRefreshToken,
		},
	})
}

// RequestToken is specification 4.3 and 4.4. Which fields there are has been checked.
func (h handlers) RequestToken(
	ctx context.Context, request partnerapi.RequestTokenRequestObject,
) (partnerapi.RequestTokenResponseObject, error) {
	ctx, cancel := acting(ctx)
	defer cancel()
	tokens, err := h.requestTokens(ctx, callOf(ctx), request.Body)
	if err != nil {
		return nil, err
	}
	body := partnerapi.TokenResponse{
		GrantId:           tokens.GrantID,
		HistoryFrom:       openapi_types.Date{Time: tokens.HistoryFrom},
		ConnectionVersion: strconv.FormatInt(tokens.ConnectionVersion, 10),
		AccessToken:       tokens.AccessToken,
		TokenType:         partnerapi.TokenResponseTokenTypeBearer,
		ExpiresIn:         tokens.ExpiresIn,
		RefreshToken:      tokens.RefreshToken,
		Scope:             tokens.Scopes.String(),
	}
	return newBody(1024, func(b []byte) []byte { return appendTokens(b, body) }), nil
}

// requestTokens exchanges or refreshes, and authenticates the client by the way. Where that does nothing, the client is
// authenticated first, and only then is said what was wrong with its code or token.
func (h handlers) requestTokens(ctx context.Context, c *call, fields *partnerapi.TokenRequest) (tokens oauth.Tokens, err error) {
	id, err := client.ParseID(c.presented.id)
	if err != nil {
		return oauth.Tokens{}, err
	}
	refresh := fields.GrantType == partnerapi.GrantTypeRefreshToken
	act := func(secretHash []byte) (oauth.Tokens, error) {
		if refresh {
			return h.OAuth.TryRefresh(ctx, id, secretHash, *fields.RefreshToken)
		}
		return h.OAuth.TryExchange(ctx, id, secretHash, oauth.ExchangeParams{
			Code:         *fields.Code,
			RedirectURI:  *fields.RedirectUri,
			CodeVerifier: *fields.CodeVerifier,
		})
	}
	tokens, err = act(credential.Hash(c.presented.secret))
	switch {
	case err == nil:
		c.authenticated(ctx, id)
	case errors.Is(err, oauth.ErrInvalidGrant):
		if err := h.authenticate(ctx, c.presented, c); err != nil {
			return oauth.Tokens{}, err
		}
		if refresh {
			tokens, err = h.OAuth.Refresh(ctx, id, *fields.RefreshToken)
		} else {
			tokens, err = act(nil)
		}
	}
	if refresh {
		telemetry.EventOf(ctx).Refresh = refreshOutcome(err)
	}
	return tokens, err
}

// refreshOutcome is what only the operator is told: the caller's answer is the same for all that is refused.
func refreshOutcome(err error) telemetry.RefreshOutcome {
	switch {
	case err == nil:
		return telemetry.RefreshRotated
	case errors.Is(err, oauth.ErrReplayed):
		return telemetry.RefreshReplayed
	case errors.Is(err, oauth.ErrLapsed):
		return telemetry.RefreshLapsed
	case errors.Is(err, oauth.ErrInvalidGrant):
		return telemetry.RefreshRefused
	}
	return telemetry.RefreshFailed
}

// RevokeToken is specification 4.5. The hint is not needed: a credential knows its kind.
func (h handlers) RevokeToken(
	ctx context.Context, request partnerapi.RevokeTokenRequestObject,
) (partnerapi.RevokeTokenResponseObject, error) {
	ctx, cancel := acting(ctx)
	defer cancel()
	if err := h.revoke(ctx, callOf(ctx), request.Body.Token); err != nil {
		return nil, err
	}
	return partnerapi.RevokeToken200Response{Headers: partnerapi.RevokeToken200ResponseHeaders(noCaching)}, nil
}

// revoke authenticates the client by the way, as requestTokens does.
func (h handlers) revoke(ctx context.Context, c *call, token string) error {
	id, err := client.ParseID(c.presented.id)
	if err != nil {
		return err
	}
	done, err := h.OAuth.TryRevoke(ctx, id, credential.Hash(c.presented.secret), token)
	if err != nil {
		return err
	}
	if done {
		c.authenticated(ctx, id)
		return nil
	}
	if err := h.authenticate(ctx, c.presented, c); err != nil {
		return err
	}
	return h.OAuth.Revoke(ctx, id, token)
}

// DisconnectGrant is specification 4.10.
func (h handlers) DisconnectGrant(
	ctx context.Context, request partnerapi.DisconnectGrantRequestObject,
) (partnerapi.DisconnectGrantResponseObject, error) {
	ctx, cancel := acting(ctx)
	defer cancel()
	if err := h.OAuth.Disconnect(ctx, callOf(ctx).client, request.GrantId); err != nil {
		return nil, err
	}
	return partnerapi.DisconnectGrant204Response{Headers: partnerapi.DisconnectGrant204ResponseHeaders(noCaching)}, nil
}
