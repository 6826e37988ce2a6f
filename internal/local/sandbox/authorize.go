package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"

	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/oauth"
)

// DecideAuthorization acts as a user with a browser.
func (d driver) DecideAuthorization(
	ctx context.Context, request sandboxapi.DecideAuthorizationRequestObject,
) (sandboxapi.DecideAuthorizationResponseObject, error) {
	location, err := d.decide(ctx, request.Body.AuthorizationUrl, request.Body.UserId,
		request.Body.Decision == sandboxapi.AuthorizationDecisionDecisionAllow)
	return sandboxapi.DecideAuthorization200JSONResponse{RedirectUrl: location}, err
}

// decide calls the domain as package pages does: it checks the request, signs the user in, and takes the decision of the consent page.
// It returns the address to which the browser is redirected.
func (s *sandbox) decide(ctx context.Context, authorizationURL string, user uuid.UUID, allow bool) (location string, err error) {
	query, is := strings.CutPrefix(authorizationURL, s.baseURL+"/oauth/authorize?")
	if !is || strings.Contains(query, "#") {
		return "", contract.Field("must be the sandbox's base_url with /oauth/authorize and a query", "authorization_url")
	}
	if !s.people.has(user) {
		return "", contract.Field("must be a user of the sandbox", "user_id")
	}
	browser := sha256.Sum256([]byte(rand.Text()))
	server := s.service.OAuth
	request, err := server.Authorize(ctx, query, len(authorizationURL), browser)
	if refused := (*oauth.AuthorizeError)(nil); errors.As(err, &refused) {
		return "", contract.Field(string(refused.Cause)+": "+refused.Reason, "authorization_url")
	}
	if err != nil {
		return "", err
	}
	if err := server.SignIn(ctx, request, browser, browser, user); err != nil {
		return "", err
	}
	consent, err := server.Consent(ctx, request.ID, browser)
	if err != nil {
		return "", err
	}
	switch {
	case !allow:
		return server.Deny(ctx, request.ID, browser)
	case consent.ScopeMismatch:
		return "", errScopeMismatch
	}
	return server.Allow(ctx, request.ID, browser)
}
