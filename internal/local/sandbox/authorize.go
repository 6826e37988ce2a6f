package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/contract"
)

// DecideAuthorization acts as a user with a browser. It calls the domain as package pages does: it checks the request, signs the user
// in, and takes the decision of the consent page. It returns the address to which the browser is redirected.
func (d driver) DecideAuthorization(
	ctx context.Context, request sandboxapi.DecideAuthorizationRequestObject,
) (sandboxapi.DecideAuthorizationResponseObject, error) {
	address, user := request.Body.AuthorizationUrl, request.Body.UserId
	query, is := strings.CutPrefix(address, d.baseURL+"/oauth/authorize?")
	if !is || strings.Contains(query, "#") {
		return nil, contract.Field("must be the sandbox's base_url with /oauth/authorize and a query", "authorization_url")
	}
	if !d.people.has(user) {
		return nil, contract.Field("must be a user of the sandbox", "user_id")
	}
	browser := sha256.Sum256([]byte(rand.Text()))
	server := d.service.OAuth
	asked, err := server.Authorize(ctx, query, len(address), browser)
	if refused := (*oauth.AuthorizeError)(nil); errors.As(err, &refused) {
		return nil, contract.Field(string(refused.Cause)+": "+refused.Reason, "authorization_url")
	}
	if err != nil {
		return nil, err
	}
	if err := server.SignIn(ctx, asked, browser, browser, user); err != nil {
		return nil, err
	}
	consent, err := server.Consent(ctx, asked.ID, browser)
	if err != nil {
		return nil, err
	}
	if request.Body.Decision == sandboxapi.AuthorizationDecisionDecisionDeny {
		location, err := server.Deny(ctx, asked.ID, browser)
		return sandboxapi.DecideAuthorization200JSONResponse{RedirectUrl: location}, err
	}
	if consent.ScopeMismatch {
		return nil, errScopeMismatch
	}
	location, err := server.Allow(ctx, asked.ID, browser, "")
	return sandboxapi.DecideAuthorization200JSONResponse{RedirectUrl: location}, err
}
