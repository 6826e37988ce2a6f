package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
	"connect-svc/internal/timezone"
)

// Allow ends the request with a code for the connection's current version, and returns the address to send the browser to. The
// exchange of the code notices if the connection changes in the meantime. Error: ErrRequestEnded, also if the consent was not shown, is
// not valid any more, or has a scope mismatch. browser is the user's, in words, for the receipt.
func (s *Server) Allow(ctx context.Context, id uuid.UUID, session [sha256.Size]byte, browser string) (string, error) {
	found, err := s.consent(ctx, id, session)
	if err != nil {
		return "", fmt.Errorf("allow: %w", err)
	}
	if found.request.ConsentDay == nil || found.scopeMismatch() {
		return "", fmt.Errorf("allow: %w", ErrRequestEnded)
	}
	userID, clientID := *found.request.UserID, found.request.ClientID
	if found.user.Known {
		err = s.queries.NoteBrowser(ctx, oauthdb.NoteBrowserParams{UserID: userID, ClientID: clientID, Browser: browser})
	} else {
		err = s.addConnection(ctx, oauthdb.AddConnectionParams{
			UserID: userID, ClientID: clientID, Scopes: found.request.Scopes, HistoryFrom: found.today(), Browser: browser,
		})
	}
	if err != nil {
		return "", fmt.Errorf("allow: %w", err)
	}
	allowed, err := s.queries.AllowAuthorizationRequest(ctx, oauthdb.AllowAuthorizationRequestParams{
		RequestID:    id,
		SessionHash:  session[:],
		UserID:       &userID,
		ConsentDay:   found.request.ConsentDay,
		DayEnds:      timezone.EndOfDay(found.local()),
		Version:      found.user.Version,
		CodeLifetime: s.settings.CodeLifetime,
		Expected:     s.pool.Expected(),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		_, ended := s.consent(ctx, id, session) // tells if the day is over by now
		err = cmp.Or(ended, ErrRequestEnded)
	}
	if err != nil {
		return "", fmt.Errorf("allow: %w", err)
	}
	historyFrom := found.today()
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
func (s *Server) addConnection(ctx context.Context, added oauthdb.AddConnectionParams) error {
	err := postgres.Elsewhere(ctx, func(try int) (err error) {
		var derived bool
		added.GrantID, derived = s.grantOf(added.UserID, added.ClientID)
		if !derived || try > 0 {
			if added.GrantID, err = uuid.NewRandomFromReader(s.settings.Random); err != nil {
				return err
			}
		}
		return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
			queries := s.queries.WithTx(tx)
			n, err := queries.AddConnection(ctx, added)
			if err != nil || n == 0 {
				return err
			}
			return queries.AddGrant(ctx, oauthdb.AddGrantParams{GrantID: added.GrantID, UserID: added.UserID, ClientID: added.ClientID})
		})
	})
	if postgres.Is(err, postgres.ForeignKeyViolation) {
		return ErrRequestEnded
	}
	return err
}
