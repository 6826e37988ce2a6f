package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
)

// Cause is an error code of RFC 6749, section 4.1.2.1.
type Cause string

// The causes of specification 7.2.
const (
	InvalidRequest          Cause = "invalid_request"
	UnauthorizedClient      Cause = "unauthorized_client"
	UnsupportedResponseType Cause = "unsupported_response_type"
	InvalidScope            Cause = "invalid_scope"
)

// AuthorizeError refuses an authorization request. It is shown to the user and never sent to the callback.
type AuthorizeError struct {
	Cause    Cause
	Reason   string    // for the operator and the partner (package refusal)
	ClientID uuid.UUID // the client that the request names, which may not exist, or uuid.Nil
}

func (e *AuthorizeError) Error() string { return "authorization request refused: " + string(e.Cause) }

// authorizeParameters are the parameters of specification 4.2. Each is required exactly once, and no others are allowed.
var authorizeParameters = []string{
	"client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge", "code_challenge_method",
}

// Authorize checks an authorization request and seals it for its browser, for Settings.RequestLifetime. Nothing is stored, because
// anyone may send any number of requests. rawQuery is the query as received, urlLength is the length of the whole URL in bytes, and
// browser is the hash of a secret that only this browser holds. A refused request is an *AuthorizeError.
func (s *Server) Authorize(ctx context.Context, rawQuery string, urlLength int, browser [sha256.Size]byte) (SealedRequest, error) {
	if urlLength > 16*1024 { // specification 4.2
		return SealedRequest{}, &AuthorizeError{InvalidRequest, "the URL is longer than 16 KiB", named(rawQuery)}
	}
	parameters, err := authorizeQuery(rawQuery)
	if err != nil {
		return SealedRequest{}, err
	}
	request, err := s.checkAuthorize(ctx, parameters)
	if err != nil {
		return SealedRequest{}, err
	}
	request.ID, request.Browser = uuid.New(), browser
	sealed, err := s.keys.Seal(credential.AuthorizationRequest, request.requestPayload, []byte(request.State))
	return SealedRequest{request.ID, sealed}, postgres.Wrap("authorize", err)
}

// named returns the client that an authorization request names, however bad the rest is.
func named(rawQuery string) uuid.UUID {
	values, _ := url.ParseQuery(rawQuery) // has what can be read
	clientID, _ := uuid.Parse(values.Get("client_id"))
	return clientID
}

// authorizeQuery reads the parameters. Each must be present once and have a value.
func authorizeQuery(rawQuery string) (map[string]string, error) {
	refuse := func(reason string) (map[string]string, error) {
		return nil, &AuthorizeError{InvalidRequest, reason, named(rawQuery)}
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return refuse(refusal.Named("parameter", refusal.Undecodable(rawQuery), authorizeParameters) + " " + refusal.NotEncoded)
	}
	for name := range values {
		if !slices.Contains(authorizeParameters, name) {
			return refuse(refusal.Unknown("parameter", name, authorizeParameters))
		}
	}
	parameters := make(map[string]string, len(values))
	for _, name := range authorizeParameters {
		switch {
		case len(values[name]) > 1:
			return refuse(name + " is repeated")
		case values.Get(name) == "":
			return refuse(name + " is missing or empty")
		}
		parameters[name] = values.Get(name)
	}
	return parameters, nil
}

// checkAuthorize applies the rules of specification 4.2 and 7.2. It checks the client first, because the other parameters are compared
// with its registration.
func (s *Server) checkAuthorize(ctx context.Context, parameters map[string]string) (pendingRequest, error) {
	clientID, err := uuid.Parse(parameters["client_id"])
	refuse := func(cause Cause, reason string) (pendingRequest, error) {
		return pendingRequest{}, &AuthorizeError{cause, reason, clientID}
	}
	if err != nil || clientID.String() != parameters["client_id"] {
		return refuse(UnauthorizedClient, "client_id is no UUID in lower case")
	}
	registered, known, err := s.registrations.Ask(ctx, clientID)
	if err != nil {
		return pendingRequest{}, fmt.Errorf("authorize: %w", err)
	}
	switch {
	case !known:
		return refuse(UnauthorizedClient, "client_id is that of no client of this service")
	case !registered.Active:
		return refuse(UnauthorizedClient, "client_id is that of a client that was disabled or offboarded")
	}
	if parameters["redirect_uri"] != registered.CallbackUrl {
		return refuse(InvalidRequest, "redirect_uri is not the registered one: "+difference(parameters["redirect_uri"], registered.CallbackUrl))
	}
	if parameters["response_type"] != "code" {
		return refuse(UnsupportedResponseType, "response_type is not code")
	}
	scopes, err := scope.Parse(parameters["scope"])
	if err != nil || len(parameters["scope"]) > 512 {
		return refuse(InvalidScope, badScope(parameters["scope"]))
	}
	if missing := scopes &^ registered.Scopes; missing != 0 {
		return refuse(InvalidScope, "scope has what the client is not registered for: "+missing.String())
	}
	challenge, err := base64.RawURLEncoding.Strict().DecodeString(parameters["code_challenge"])
	switch {
	case err != nil || len(challenge) != sha256.Size || len(parameters["code_challenge"]) != 43:
		return refuse(InvalidRequest, "code_challenge is not a SHA-256 hash in unpadded base64url, which has 43 characters")
	case parameters["code_challenge_method"] != "S256":
		return refuse(InvalidRequest, "code_challenge_method is not S256")
	case len(parameters["state"]) < 22 || len(parameters["state"]) > 2048 ||
		strings.ContainsFunc(parameters["state"], func(r rune) bool { return r < '!' || r > '~' }):
		return refuse(InvalidRequest, "state does not have 22 to 2048 visible ASCII characters")
	}
	return pendingRequest{
		requestPayload: requestPayload{
			ClientID:      clientID,
			RedirectURI:   sha256.Sum256([]byte(parameters["redirect_uri"])),
			Scopes:        scopes,
			CodeChallenge: [sha256.Size]byte(challenge),
			ExpiresAt:     registered.Now.Add(s.settings.RequestLifetime).UnixMicro(),
		},
		State: parameters["state"],
	}, nil
}

// badScope describes what is wrong with a list of scopes.
func badScope(list string) string {
	if len(list) > 512 {
		return "scope has more than 512 characters"
	}
	for _, name := range strings.Split(list, " ") {
		switch {
		case name == "" || strings.ContainsAny(name, ",;+\t\n"):
			return "scope does not separate its scopes by single spaces"
		case !slices.Contains(scope.All.Names(), name):
			return "scope has " + refusal.Unknown("scope", name, scope.All.Names())
		}
	}
	return "scope has a scope twice"
}

// difference describes how a callback URL differs from the registered one.
func difference(given, registered string) string {
	if given == registered+"/" {
		return "it ends in a slash"
	}
	if given+"/" == registered {
		return "it lacks the slash at its end"
	}
	a, err := url.Parse(given)
	b, errRegistered := url.Parse(registered)
	switch {
	case err != nil || errRegistered != nil:
		return "it is not a URL"
	case a.Scheme != b.Scheme:
		return "it has another scheme"
	case a.Host != b.Host:
		return "it has another host or port"
	case a.EscapedPath() != b.EscapedPath():
		return "it has another path"
	case a.RawQuery != b.RawQuery:
		return "it has another query"
	}
	return "it is written in another way"
}
