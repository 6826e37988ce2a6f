package oauth

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/google/uuid"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/timezone"
)

// Consent is what the consent page shows.
type Consent struct {
	Scopes              scope.Set
	Current             scope.Set // of the existing connection; empty without one
	State               State     // of the existing connection; empty without one
	Email               string    // of the user who is asked
	HistoryFrom         time.Time // the first day that will be readable: midnight UTC
	Today, RegisteredOn time.Time // of the user: midnights UTC
	ExpiresAt           time.Time
	// ScopeMismatch: the user's connection with this client has other scopes and must be disconnected first
	// (specification 3.1). Allow is refused.
	ScopeMismatch bool
}

// Consent returns what the signed-in user is asked. The consent is valid for the user's calendar day of the sign-in. When that day
// is over, the request has ended (specification 3.1). Errors: ErrRequestEnded, ErrDayOver.
func (s *Server) Consent(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (Consent, error) {
	found, err := s.consent(ctx, id, session)
	if err != nil {
		return Consent{}, err
	}
	today := today(found.user)
	consent := Consent{
		Scopes:      found.request.Scopes,
		Email:       found.user.Email,
		HistoryFrom: today,
		Today:       today, RegisteredOn: found.user.RegisteredOn,
		ExpiresAt:     found.request.ExpiresAt,
		ScopeMismatch: found.scopeMismatch(),
	}
	if found.user.Connected {
		consent.HistoryFrom, consent.Current, consent.State = *found.user.HistoryFrom, *found.user.Scopes, State(found.user.State)
	}
	return consent, nil
}

// consentState is a request with its signed-in user.
type consentState struct {
	request oauthdb.GetAuthorizationRequestRow
	user    oauthdb.GetConsentUserRow
}

// localTime returns the time of the database's clock for the user who is asked.
func localTime(user oauthdb.GetConsentUserRow) time.Time {
	return user.Now.In(timezone.Location(user.Timezone))
}

// today returns the user's calendar day: midnight UTC.
func today(user oauthdb.GetConsentUserRow) time.Time { return timezone.Day(localTime(user)) }

// scopeMismatch reports whether the user's connection has other scopes than the request.
func (c consentState) scopeMismatch() bool {
	return c.user.Connected && *c.user.Scopes != c.request.Scopes
}

// consent reads what Consent, Allow and DenyAndDisconnect decide on. Error: ErrRequestEnded, ErrDayOver.
func (s *Server) consent(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (found consentState, err error) {
	found.request, err = s.queries.GetAuthorizationRequest(ctx, oauthdb.GetAuthorizationRequestParams{RequestID: id, SessionHash: session[:]})
	if err != nil {
		return found, postgres.NoRowsAs(err, ErrRequestEnded)
	}
	found.user, err = s.queries.GetConsentUser(ctx, oauthdb.GetConsentUserParams{
		UserID: *found.request.UserID, ClientID: found.request.ClientID, Expected: s.pool.Expected(),
	})
	if err != nil {
		return found, postgres.NoRowsAs(err, ErrRequestEnded)
	}
	if day := found.request.ConsentDay; day != nil && !day.Equal(today(found.user)) {
		return found, ErrDayOver
	}
	return found, nil
}
