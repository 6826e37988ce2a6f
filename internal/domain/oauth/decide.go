package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/timezone"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

// Consent returns what the signed-in user is asked. The consent is valid for the user's calendar day of the sign-in (until 1.3.0: or of this
// call, if a server of 1.0.0 has stored none). When that day is over, the request has ended (specification 3.1). Errors: ErrRequestEnded, ErrDayOver.
func (s *Server) Consent(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (Consent, error) {
	state, err := s.consent(ctx, id, session)
	if err != nil {
		return Consent{}, err
	}
	today := today(state.user)
	if state.request.ConsentDay == nil { // until 1.3.0: the sign-in was at a server of 1.0.0
		if err := s.queries.SetConsentDay(ctx, oauthdb.SetConsentDayParams{ConsentDay: today, RequestID: id, SessionHash: session[:]}); err != nil {
			return Consent{}, postgres.Wrap("consent", err)
		}
	}
	consent := Consent{
		Scopes:      state.request.Scopes,
		Email:       state.user.Email,
		HistoryFrom: today,
		Today:       today, RegisteredOn: state.user.RegisteredOn,
		ExpiresAt:     state.request.ExpiresAt,
		ScopeMismatch: state.scopeMismatch(),
	}
	if state.user.Connected {
		consent.HistoryFrom, consent.Current, consent.State = *state.user.HistoryFrom, *state.user.Scopes, State(state.user.State)
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
func (s *Server) consent(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (state consentState, err error) {
	state.request, err = s.queries.GetAuthorizationRequest(ctx, oauthdb.GetAuthorizationRequestParams{RequestID: id, SessionHash: session[:]})
	if err != nil {
		return state, postgres.NoRowsAs(err, ErrRequestEnded)
	}
	state.user, err = s.queries.GetConsentUser(ctx, oauthdb.GetConsentUserParams{
		UserID: *state.request.UserID, ClientID: state.request.ClientID,
	})
	if err != nil {
		return state, postgres.NoRowsAs(err, ErrRequestEnded)
	}
	if day := state.request.ConsentDay; day != nil && !day.Equal(today(state.user)) {
		return state, ErrDayOver
	}
	return state, nil
}

// Allow ends the request with a code for the connection's current version, and returns the address to send the browser to. The
// exchange of the code notices if the connection changes in the meantime. A repetition has the same result, with another code, while the
// first one is valid and unused: only the first exchanged works. Error: ErrRequestEnded, also if the consent is not valid any more or has a
// scope mismatch. browser is the user's, in words, for the receipt.
func (s *Server) Allow(ctx context.Context, id uuid.UUID, session [sha256.Size]byte, browser string) (string, error) {
	callback, err := s.allow(ctx, id, session, browser)
	if errors.Is(err, ErrRequestEnded) {
		var failure error
		if callback, failure = s.allowAgain(ctx, id, session); !errors.Is(failure, ErrRequestEnded) {
			err = failure
		}
	}
	if err != nil {
		return "", fmt.Errorf("allow: %w", err)
	}
	return callback, nil
}

func (s *Server) allow(ctx context.Context, id uuid.UUID, session [sha256.Size]byte, browser string) (string, error) {
	state, err := s.consent(ctx, id, session)
	if err != nil {
		return "", err
	}
	if state.scopeMismatch() {
		return "", ErrRequestEnded
	}
	userID, clientID := *state.request.UserID, state.request.ClientID
	if state.user.Known {
		err = s.queries.NoteBrowser(ctx, oauthdb.NoteBrowserParams{UserID: userID, ClientID: clientID, Browser: browser})
	} else {
		err = s.addConnection(ctx, oauthdb.AddConnectionParams{
			UserID: userID, ClientID: clientID, Scopes: state.request.Scopes, HistoryFrom: today(state.user), Browser: browser,
		})
	}
	if err != nil {
		return "", err
	}
	allowed, err := s.queries.AllowAuthorizationRequest(ctx, oauthdb.AllowAuthorizationRequestParams{
		RequestID:    id,
		SessionHash:  session[:],
		UserID:       &userID,
		ConsentDay:   today(state.user),
		DayEnds:      timezone.EndOfDay(localTime(state.user)),
		Version:      state.user.Version,
		CodeLifetime: s.settings.CodeLifetime,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		_, ended := s.consent(ctx, id, session) // tells if the day is over by now
		err = cmp.Or(ended, ErrRequestEnded)
	}
	if err != nil {
		return "", err
	}
	return s.codeCallback(state.user, oauthdb.GetAllowedRequestRow(allowed))
}

// allowAgain returns the result of an Allow once more: a browser shows the last answer if a button is pressed twice. The code has the
// content of the first one, so it is not valid for longer. Error: ErrRequestEnded if this session has not allowed the request, or its code
// is used or cannot be used any more.
func (s *Server) allowAgain(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (string, error) {
	allowed, err := s.queries.GetAllowedRequest(ctx, oauthdb.GetAllowedRequestParams{RequestID: id, SessionHash: session[:]})
	if err != nil {
		return "", postgres.NoRowsAs(err, ErrRequestEnded)
	}
	user, err := s.queries.GetConsentUser(ctx, oauthdb.GetConsentUserParams{
		UserID: *allowed.UserID, ClientID: allowed.ClientID,
	})
	if err != nil {
		return "", postgres.NoRowsAs(err, ErrRequestEnded)
	}
	if user.Version != *allowed.DecidedVersion {
		return "", ErrRequestEnded
	}
	return s.codeCallback(user, allowed)
}

// historyFrom returns the first day of the connection after the exchange of a code. While the version is the same, so is the day.
func historyFrom(user oauthdb.GetConsentUserRow, consentDay time.Time) int64 {
	if user.Connected {
		return user.HistoryFrom.Unix()
	}
	return consentDay.Unix()
}

// codeCallback returns the address that the browser of an allowed request is sent to.
func (s *Server) codeCallback(user oauthdb.GetConsentUserRow, allowed oauthdb.GetAllowedRequestRow) (string, error) {
	code, err := s.keys.Seal(credential.AuthorizationCode, authorizationCode{
		UserID:        *allowed.UserID,
		ClientID:      allowed.ClientID,
		Version:       *allowed.DecidedVersion,
		Scopes:        allowed.Scopes,
		HistoryFrom:   historyFrom(user, *allowed.ConsentDay),
		CodeChallenge: [sha256.Size]byte(allowed.CodeChallenge),
		RedirectURI:   sha256.Sum256([]byte(allowed.RedirectUri)),
		ExpiresAt:     allowed.CodeExpiresAt.UnixMicro(),
	})
	return callbackURL(allowed.RedirectUri, allowed.State, "code", code), err
}

// addConnection inserts the row of a connection, as version 0, and its grant. Concurrent calls insert it once. Error: ErrRequestEnded
// if the user was deleted.
func (s *Server) addConnection(ctx context.Context, added oauthdb.AddConnectionParams) (err error) {
	if added.GrantID, err = uuid.NewRandomFromReader(s.settings.Random); err != nil {
		return err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		n, err := queries.AddConnection(ctx, added)
		if err != nil || n == 0 {
			return err
		}
		return queries.AddGrant(ctx, oauthdb.AddGrantParams{GrantID: added.GrantID, UserID: added.UserID, ClientID: added.ClientID})
	})
	if postgres.Is(err, postgres.ForeignKeyViolation) {
		return ErrRequestEnded
	}
	return err
}

// Deny ends a request after sign-in, and returns the address to send the browser to. A repetition has the same result. secret is the hash
// of the sign-in's secret, or of the one that opened the request. Errors: ErrRequestEnded, ErrDayOver.
func (s *Server) Deny(ctx context.Context, id uuid.UUID, secret [sha256.Size]byte) (string, error) {
	var row oauthdb.GetDeniedRequestRow
	_, err := s.consent(ctx, id, secret)
	if !errors.Is(err, ErrDayOver) { // after which the browser is not sent back (3.1)
		row, err = s.deny(ctx, oauthdb.DenyAuthorizationRequestParams{RequestID: id, BrowserHash: secret[:], Decision: "deny"})
	}
	if err != nil {
		return "", fmt.Errorf("deny: %w", err)
	}
	return deniedCallback(row.RedirectUri, row.State), nil
}

// DenyAndDisconnect ends a request after sign-in, and then the connection of its user with the client that asks. It returns the address to
// send the browser to. A repetition has the same result, and ends no connection that began later. Error: ErrRequestEnded, also if there is
// no connection.
func (s *Server) DenyAndDisconnect(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (string, error) {
	decision := oauthdb.DenyAuthorizationRequestParams{RequestID: id, BrowserHash: session[:], Decision: "disconnect"}
	state, err := s.consent(ctx, id, session)
	var row oauthdb.GetDeniedRequestRow
	switch {
	case err == nil && state.user.Connected:
		decision.Version = &state.user.Version
		row, err = s.deny(ctx, decision)
	case err == nil || errors.Is(err, ErrRequestEnded):
		row, err = s.deniedBefore(ctx, decision)
	}
	if err == nil {
		err = s.disconnect(ctx, *row.UserID, row.ClientID, "user", row.DecidedVersion)
	}
	if err != nil && !errors.Is(err, ErrNotConnected) { // the latter: the same decision has ended it
		return "", fmt.Errorf("deny and disconnect: %w", err)
	}
	return deniedCallback(row.RedirectUri, row.State), nil
}

// deny records the denial and returns the request, with a version if that was done before. Error: ErrRequestEnded.
func (s *Server) deny(ctx context.Context, decision oauthdb.DenyAuthorizationRequestParams) (row oauthdb.GetDeniedRequestRow, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		denied, err := queries.DenyAuthorizationRequest(ctx, decision)
		row = oauthdb.GetDeniedRequestRow(denied)
		row.DecidedVersion = nil             // a code may be exchanged meanwhile: the decision itself ends any version
		if err != nil || row.UserID == nil { // a cancellation before sign-in is not audited
			return err
		}
		return queries.AuditDenied(ctx, oauthdb.AuditDeniedParams{UserID: *row.UserID, ClientID: row.ClientID, Scopes: row.Scopes})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return s.deniedBefore(ctx, decision)
	}
	return row, err
}

// deniedBefore returns a request that the same decision has ended. Error: ErrRequestEnded.
func (s *Server) deniedBefore(ctx context.Context, decision oauthdb.DenyAuthorizationRequestParams) (oauthdb.GetDeniedRequestRow, error) {
	row, err := s.queries.GetDeniedRequest(ctx, oauthdb.GetDeniedRequestParams{
		RequestID: decision.RequestID, BrowserHash: decision.BrowserHash, Decision: decision.Decision,
	})
	if err == nil && decision.Decision == "disconnect" && row.UserID == nil { // a change of the user's address ends requests
		err = ErrRequestEnded
	}
	return row, postgres.NoRowsAs(err, ErrRequestEnded)
}

// DenySealed ends a request before sign-in, and returns the address to send the browser to. Nothing is written: the browser notes that the
// request was denied. A repetition has the same result. If there was a sign-in, perhaps in another tab, it is [Server.Deny]. Error:
// ErrRequestEnded.
func (s *Server) DenySealed(ctx context.Context, sealed SealedRequest, browser [sha256.Size]byte) (string, error) {
	pending, err := s.OpenRequest(ctx, sealed, browser)
	if err != nil {
		return "", err
	}
	_, err = s.queries.FindRequest(ctx, oauthdb.FindRequestParams{RequestID: sealed.ID, BrowserHash: browser[:]})
	if err == nil {
		return s.Deny(ctx, sealed.ID, browser)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return "", postgres.Wrap("deny", err)
	}
	request, err := s.unsealRequest(sealed, browser)
	return deniedCallback(pending.CallbackURL, request.State), err
}

func deniedCallback(redirectURI, state string) string {
	return callbackURL(redirectURI, state, "error", "access_denied")
}

// callbackURL adds the outcome to the registered callback and leaves a registered query unchanged. The escaped state comes out of the
// client's query parser byte for byte.
func callbackURL(registered, state, name, value string) string {
	separator := "?"
	if strings.Contains(registered, "?") {
		separator = "&"
	}
	return registered + separator + "state=" + url.QueryEscape(state) + "&" + name + "=" + url.QueryEscape(value)
}
