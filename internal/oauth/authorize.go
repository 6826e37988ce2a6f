package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/scope"
)

// maxAuthorizationURL is the length of the whole authorization URL in bytes (specification 4.2).
const maxAuthorizationURL = 16 * 1024

// Cause is why an authorization request was refused, in the words of RFC 6749, section 4.1.2.1.
type Cause string

// The causes of specification 7.2.
const (
	InvalidRequest          Cause = "invalid_request"
	UnauthorizedClient      Cause = "unauthorized_client"
	UnsupportedResponseType Cause = "unsupported_response_type"
	InvalidScope            Cause = "invalid_scope"
)

// AuthorizeError refuses an authorization request. It is shown to the user alone, never sent to the callback.
type AuthorizeError struct{ Cause Cause }

func (e *AuthorizeError) Error() string { return "authorization request refused: " + string(e.Cause) }

// authorizeParameters are those of specification 4.2; each is required exactly once, and there are no others.
var authorizeParameters = [...]string{
	"client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge", "code_challenge_method",
}

// Authorize checks an authorization request and stores it for the browser that brought it, for
// Settings.RequestLifetime. rawQuery is the query as it came, urlLength the length of the whole URL in bytes, and
// browser the hash of a secret that only this browser holds. A refused request is an *AuthorizeError.
func (s *Server) Authorize(ctx context.Context, rawQuery string, urlLength int, browser [sha256.Size]byte) (uuid.UUID, error) {
	if urlLength > maxAuthorizationURL {
		return uuid.Nil, &AuthorizeError{InvalidRequest}
	}
	parameters, err := authorizeQuery(rawQuery)
	if err != nil {
		return uuid.Nil, err
	}
	request, err := s.checkAuthorize(ctx, parameters)
	if err != nil {
		return uuid.Nil, err
	}
	request.id, request.browser, request.lifetime = uuid.New(), browser, s.settings.RequestLifetime
	if err := s.store.createRequest(ctx, request); err != nil {
		return uuid.Nil, fmt.Errorf("authorize: %w", err)
	}
	return request.id, nil
}

// authorizeQuery reads the parameters, each of which must be there once with a value.
func authorizeQuery(rawQuery string) (map[string]string, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil || len(values) != len(authorizeParameters) {
		return nil, &AuthorizeError{InvalidRequest}
	}
	parameters := make(map[string]string, len(values))
	for _, name := range authorizeParameters {
		if len(values[name]) != 1 || values[name][0] == "" {
			return nil, &AuthorizeError{InvalidRequest}
		}
		parameters[name] = values[name][0]
	}
	return parameters, nil
}

// authorizationRequest is a request that may be shown to a user.
type authorizationRequest struct {
	id            uuid.UUID
	browser       [sha256.Size]byte
	clientID      uuid.UUID
	redirectURI   string
	scopes        scope.Set
	state         string
	codeChallenge []byte
	lifetime      time.Duration
}

// checkAuthorize applies the rules of specification 4.2 and 7.2, the client first, so that what it registered is
// known where the rest is compared with it.
func (s *Server) checkAuthorize(ctx context.Context, parameters map[string]string) (authorizationRequest, error) {
	refuse := func(cause Cause) (authorizationRequest, error) {
		return authorizationRequest{}, &AuthorizeError{cause}
	}
	clientID, err := uuid.Parse(parameters["client_id"])
	if err != nil || clientID.String() != parameters["client_id"] {
		return refuse(UnauthorizedClient)
	}
	callbackURL, allowance, err := s.store.activeClient(ctx, clientID)
	if err != nil {
		return authorizationRequest{}, fmt.Errorf("authorize: %w", err)
	}
	if parameters["redirect_uri"] != callbackURL {
		return refuse(InvalidRequest)
	}
	if parameters["response_type"] != "code" {
		return refuse(UnsupportedResponseType)
	}
	scopes, err := scope.Parse(parameters["scope"])
	if err != nil || len(parameters["scope"]) > 512 || !allowance.Contains(scopes) {
		return refuse(InvalidScope)
	}
	challenge, err := base64.RawURLEncoding.Strict().DecodeString(parameters["code_challenge"])
	if err != nil || len(challenge) != sha256.Size || len(parameters["code_challenge"]) != 43 ||
		parameters["code_challenge_method"] != "S256" || !validState(parameters["state"]) {
		return refuse(InvalidRequest)
	}
	return authorizationRequest{
		clientID:      clientID,
		redirectURI:   parameters["redirect_uri"],
		scopes:        scopes,
		state:         parameters["state"],
		codeChallenge: challenge,
	}, nil
}

// validState accepts 22 to 2048 visible ASCII characters.
func validState(state string) bool {
	return len(state) >= 22 && len(state) <= 2048 &&
		!strings.ContainsFunc(state, func(r rune) bool { return r < '!' || r > '~' })
}
