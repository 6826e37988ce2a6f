package oauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/scope"
)

// Partner is a client as users see it. All but the id and the name may be empty.
type Partner struct {
	ClientID                          uuid.UUID
	Name                              string
	HomepageURL, PrivacyURL, TermsURL string
	Logo                              string // name of the file
}

// Request is a pending authorization request, as the sign-in pages show it.
type Request struct {
	Partner     Partner
	CallbackURL string
	Scopes      scope.Set
	ExpiresAt   time.Time
	SignedIn    bool
}

// Consent is what the consent page shows.
type Consent struct {
	Scopes      scope.Set
	Current     scope.Set // of the connection that there is; none without one
	Email       string    // who is asked
	HistoryFrom time.Time // the first day that will be readable: midnight UTC
	ExpiresAt   time.Time
	// ScopeMismatch: the user's connection with this client has other scopes and must be disconnected first
	// (specification 3.1). Allow is refused.
	ScopeMismatch bool
}

// EndedBy is why a request cannot go on.
type EndedBy string

// The causes, beside a decision.
const (
	EndedByTime    EndedBy = "expired" // its lifetime or its day is over, or its user was deleted
	EndedElsewhere EndedBy = "cookies" // this browser does not have it
	EndedByPartner EndedBy = "partner" // the client is disabled, or is no longer registered as the request says
)

// Ending is why a request cannot go on, and whose it was, where the browser may know.
type Ending struct {
	Cause   EndedBy
	Partner Partner
}

// Allow ends the request with a code, and returns the address to send the browser to. It is ErrRequestEnded unless
// the consent was shown, is still good, and has no scope mismatch.
func (s *Server) Allow(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (string, error) {
	redirectURI, state, payload, err := s.allow(ctx, id, session, s.settings.CodeLifetime)
	if err != nil {
		return "", fmt.Errorf("allow: %w", err)
	}
	code, err := s.seal(credential.AuthorizationCode, payload)
	if err != nil {
		return "", fmt.Errorf("allow: %w", err)
	}
	return callbackURL(redirectURI, state, "code", code), nil
}

// DisconnectMismatch ends the connection whose scopes keep the request from being allowed. Error: ErrRequestEnded, where there
// is none.
func (s *Server) DisconnectMismatch(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) error {
	found, err := s.consent(ctx, id, session)
	if err != nil {
		return err
	}
	if !found.scopeMismatch() {
		return ErrRequestEnded
	}
	return s.DisconnectUser(ctx, *found.request.UserID, found.request.ClientID)
}

// callbackURL adds the outcome to the registered callback, whose own query, if any, stays as it was registered. The
// state is escaped so that it comes out of the client's query parser byte for byte.
func callbackURL(registered, state, name, value string) string {
	separator := "?"
	if strings.Contains(registered, "?") {
		separator = "&"
	}
	return registered + separator + "state=" + url.QueryEscape(state) + "&" + name + "=" + url.QueryEscape(value)
}
