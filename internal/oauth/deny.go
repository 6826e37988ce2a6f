package oauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/postgres"
)

// Deny ends a request after sign-in, and returns the address to send the browser to. secret is the hash of the sign-in's secret, or of
// the one that opened the request. Error: ErrRequestEnded.
func (s *Server) Deny(ctx context.Context, id uuid.UUID, secret [sha256.Size]byte) (string, error) {
	var row oauthdb.DenyAuthorizationRequestRow
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		queries := s.queries.WithTx(tx)
		row, err = queries.DenyAuthorizationRequest(ctx, oauthdb.DenyAuthorizationRequestParams{RequestID: id, BrowserHash: secret[:]})
		if err != nil || row.UserID == nil { // a cancellation before sign-in is not audited
			return err
		}
		return queries.AuditDenied(ctx, oauthdb.AuditDeniedParams{UserID: *row.UserID, ClientID: row.ClientID, Scopes: row.Scopes})
	})
	if err != nil {
		return "", fmt.Errorf("deny: %w", postgres.NoRowsAs(err, ErrRequestEnded))
	}
	return callbackURL(row.RedirectUri, row.State, "error", "access_denied"), nil
}

// DenySealed ends a request before sign-in, and returns the address to send the browser to. Nothing is written: the browser deletes the
// request. If there was a sign-in, perhaps in another tab, it is [Server.Deny]. Error: ErrRequestEnded.
func (s *Server) DenySealed(ctx context.Context, sealed SealedRequest, browser [sha256.Size]byte) (string, error) {
	pending, err := s.OpenRequest(ctx, sealed, browser)
	if err != nil {
		return "", err
	}
	stored, err := s.queries.RequestIsStored(ctx, sealed.ID)
	if err != nil {
		return "", postgres.Wrap("deny", err)
	}
	if stored {
		return s.Deny(ctx, sealed.ID, browser)
	}
	request, err := s.unsealRequest(sealed, browser)
	return callbackURL(pending.CallbackURL, request.State, "error", "access_denied"), err
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
