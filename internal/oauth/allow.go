package oauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
	"connect-svc/internal/scope"
)

// Allow ends the request with a code for the connection's current version, and returns the address to send the browser to. The
// exchange of the code notices if the connection changes in the meantime. Error: ErrRequestEnded, also if the consent was not shown, is
// not valid any more, or has a scope mismatch.
func (s *Server) Allow(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (string, error) {
	found, err := s.consent(ctx, id, session)
	if err != nil {
		return "", fmt.Errorf("allow: %w", err)
	}
	if found.request.ConsentDay == nil || found.scopeMismatch() {
		return "", fmt.Errorf("allow: %w", ErrRequestEnded)
	}
	userID, clientID := *found.request.UserID, found.request.ClientID
	if !found.user.Known {
		if err := s.addConnection(ctx, userID, clientID, found.request.Scopes, found.user.Today); err != nil {
			return "", fmt.Errorf("allow: %w", err)
		}
	}
	allowed, err := s.queries.AllowAuthorizationRequest(ctx, oauthdb.AllowAuthorizationRequestParams{
		RequestID:    id,
		SessionHash:  session[:],
		UserID:       &userID,
		ConsentDay:   found.request.ConsentDay,
		Version:      found.user.Version,
		CodeLifetime: s.settings.CodeLifetime,
		Expected:     s.pool.Expected(),
	})
	if err != nil {
		return "", fmt.Errorf("allow: %w", postgres.NoRowsAs(err, ErrRequestEnded))
	}
	historyFrom := found.user.Today
	if found.user.Connected {
		historyFrom = *found.user.HistoryFrom
	}
	code, err := s.seal(credential.AuthorizationCode, authorizationCode{
		UserID:        userID,
		ClientID:      allowed.ClientID,
		Version:       found.user.Version,
		Scopes:        allowed.Scopes,
		HistoryFrom:   historyFrom.Unix(),
		CodeChallenge: [sha256.Size]byte(allowed.CodeChallenge),
		RedirectURI:   sha256.Sum256([]byte(allowed.RedirectUri)),
		ExpiresAt:     allowed.CodeExpiresAt.UnixMicro(),
	})
	if err != nil {
		return "", fmt.Errorf("allow: %w", err)
	}
	return callbackURL(allowed.RedirectUri, allowed.State, "code", code), nil
}

// addConnection inserts the row of a connection, as version 0, and its grant. Concurrent calls insert it once. If the node of a cluster is
// away that would have the derived grant, the grant is a random one. Error: ErrRequestEnded if the user was deleted.
func (s *Server) addConnection(ctx context.Context, userID, clientID uuid.UUID, scopes scope.Set, today time.Time) error {
	err := postgres.Elsewhere(ctx, func(try int) (err error) {
		grantID, derived := s.grantOf(userID, clientID)
		if !derived || try > 0 {
			if grantID, err = uuid.NewRandomFromReader(s.settings.Random); err != nil {
				return err
			}
		}
		return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
			queries := s.queries.WithTx(tx)
			n, err := queries.AddConnection(ctx, oauthdb.AddConnectionParams{
				UserID: userID, ClientID: clientID, GrantID: grantID, Scopes: scopes, HistoryFrom: today,
			})
			if err != nil || n == 0 {
				return err
			}
			return queries.AddGrant(ctx, oauthdb.AddGrantParams{GrantID: grantID, UserID: userID, ClientID: clientID})
		})
	})
	if postgres.Is(err, postgres.ForeignKeyViolation) {
		return ErrRequestEnded
	}
	return err
}
