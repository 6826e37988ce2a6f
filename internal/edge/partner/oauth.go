package partner

import (
	"context"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/text"
)

// GetAuthorizationServerMetadata is specification 4.1.
func (e *edge) GetAuthorizationServerMetadata(
	context.Context, partnerapi.GetAuthorizationServerMetadataRequestObject,
) (partnerapi.GetAuthorizationServerMetadataResponseObject, error) {
	return partnerapi.GetAuthorizationServerMetadata200JSONResponse(e.metadata), nil
}

func metadata(baseURL string) partnerapi.AuthorizationServerMetadata {
	basic := []partnerapi.ClientAuthenticationMethod{partnerapi.ClientAuthenticationMethodClientSecretBasic}
	var scopes []partnerapi.Scope
	for _, name := range scope.All.Names() {
		scopes = append(scopes, partnerapi.Scope(name))
	}
	return partnerapi.AuthorizationServerMetadata{
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
	}
}

// RequestToken is specification 4.3 and 4.4. The guard has checked that the fields of the grant exist.
func (e *edge) RequestToken(ctx context.Context, request partnerapi.RequestTokenRequestObject) (partnerapi.RequestTokenResponseObject, error) {
	c, fields := callOf(ctx), request.Body
	var tokens oauth.Tokens
	var err error
	if fields.GrantType == partnerapi.GrantTypeRefreshToken {
		tokens, err = e.OAuth.Refresh(ctx, c.credentials, *fields.RefreshToken)
		telemetry.EventOf(ctx).Refresh = refreshOutcome(err)
	} else {
		tokens, err = e.OAuth.Exchange(ctx, c.credentials, oauth.ExchangeParams{
			Code:         *fields.Code,
			RedirectURI:  *fields.RedirectUri,
			CodeVerifier: *fields.CodeVerifier,
		})
	}
	authenticated(ctx, c, err)
	telemetry.EventOf(ctx).GrantID = tokens.GrantID
	return partnerapi.RequestToken200JSONResponse{
		GrantId:           tokens.GrantID,
		HistoryFrom:       date(tokens.HistoryFrom),
		ConnectionVersion: strconv.FormatInt(tokens.ConnectionVersion, 10),
		AccessToken:       tokens.AccessToken,
		TokenType:         partnerapi.TokenResponseTokenTypeBearer,
		ExpiresIn:         tokens.ExpiresIn,
		RefreshToken:      tokens.RefreshToken,
		Scope:             tokens.Scopes.String(),
	}, err
}

// refreshOutcome returns the outcome for the operator. The caller gets the same response for every refusal.
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
	case errors.Is(err, oauth.ErrInvalidClient):
		return ""
	}
	return telemetry.RefreshFailed
}

// RevokeToken is specification 4.5. It ignores the hint, because a credential knows its kind.
func (e *edge) RevokeToken(ctx context.Context, request partnerapi.RevokeTokenRequestObject) (partnerapi.RevokeTokenResponseObject, error) {
	c := callOf(ctx)
	err := e.OAuth.Revoke(ctx, c.credentials, request.Body.Token)
	authenticated(ctx, c, err)
	return partnerapi.RevokeToken200Response{}, err
}

// DisconnectGrant is specification 4.10.
func (e *edge) DisconnectGrant(
	ctx context.Context, request partnerapi.DisconnectGrantRequestObject,
) (partnerapi.DisconnectGrantResponseObject, error) {
	c := callOf(ctx)
	err := e.OAuth.Disconnect(ctx, c.credentials, request.GrantId)
	authenticated(ctx, c, err)
	return partnerapi.DisconnectGrant204Response{}, err
}

// basicCredentials returns the client ID and secret of an Authorization header (specification 5.1): both form-encoded, joined with a
// colon, in base64.
func basicCredentials(header string) (id, secret string, ok bool) {
	encoded, ok := contract.Authorization(header, "Basic")
	if !ok {
		return "", "", false
	}
	joined, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", "", false
	}
	id, secret, ok = strings.Cut(string(joined), ":")
	if !ok {
		return "", "", false
	}
	if id, err = url.QueryUnescape(id); err != nil || !text.IsStorable(id) {
		return "", "", false
	}
	if secret, err = url.QueryUnescape(secret); err != nil || !text.IsStorable(secret) {
		return "", "", false
	}
	return id, secret, true
}
