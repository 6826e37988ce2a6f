package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/postgres"
)

// Deny ends a request after sign-in, and returns the address to send the browser to. A repetition has the same result. secret is the hash
// of the sign-in's secret, or of the one that opened the request. Error: ErrRequestEnded.
func (s *Server) Deny(ctx context.Context, id uuid.UUID, secret [sha256.Size]byte) (string, error) {
	row, err := s.deny(ctx, oauthdb.DenyAuthorizationRequestParams{RequestID: id, BrowserHash: secret[:], Decision: "deny"})
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
	found, err := s.consent(ctx, id, session)
	var row oauthdb.GetDeniedRequestRow
	switch {
	case err == nil && found.user.Connected:
		decision.Version = &found.user.Version
		row, err = s.deny(ctx, decision)
	case err == nil || errors.Is(err, ErrRequestEnded):
		row, err = s.deniedBefore(ctx, decision)
	}
	if err == nil {
		err = s.DisconnectVersion(ctx, *row.UserID, row.ClientID, *row.DecidedVersion)
	}
	if err != nil && !errors.Is(err, ErrNotConnected) { // the latter: the same decision has ended it
		return "", fmt.Errorf("deny and disconnect: %w", err)
	}
	return deniedCallback(row.RedirectUri, row.State), nil
}

// deny records the denial and returns the request. Error: ErrRequestEnded.
func (s *Server) deny(ctx context.Context, decision oauthdb.DenyAuthorizationRequestParams) (row oauthdb.GetDeniedRequestRow, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		denied, err := queries.DenyAuthorizationRequest(ctx, decision)
		row = oauthdb.GetDeniedRequestRow(denied)
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
