package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/timezone"
)

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
	found, err := s.consent(ctx, id, session)
	if err != nil {
		return "", err
	}
	if found.scopeMismatch() {
		return "", ErrRequestEnded
	}
	userID, clientID := *found.request.UserID, found.request.ClientID
	if found.user.Known {
		err = s.queries.NoteBrowser(ctx, oauthdb.NoteBrowserParams{UserID: userID, ClientID: clientID, Browser: browser})
	} else {
		err = s.addConnection(ctx, oauthdb.AddConnectionParams{
			UserID: userID, ClientID: clientID, Scopes: found.request.Scopes, HistoryFrom: today(found.user), Browser: browser,
		})
	}
	if err != nil {
		return "", err
	}
	allowed, err := s.queries.AllowAuthorizationRequest(ctx, oauthdb.AllowAuthorizationRequestParams{
		RequestID:    id,
		SessionHash:  session[:],
		UserID:       &userID,
		ConsentDay:   today(found.user),
		DayEnds:      timezone.EndOfDay(localTime(found.user)),
		Version:      found.user.Version,
		CodeLifetime: s.settings.CodeLifetime,
		Expected:     s.pool.Expected(),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		_, ended := s.consent(ctx, id, session) // tells if the day is over by now
		err = cmp.Or(ended, ErrRequestEnded)
	}
	if err != nil {
		return "", err
	}
	return s.codeCallback(authorizationCode{
		UserID:        userID,
		ClientID:      allowed.ClientID,
		Version:       found.user.Version,
		Scopes:        allowed.Scopes,
		HistoryFrom:   historyFrom(found.user, today(found.user)),
		CodeChallenge: [sha256.Size]byte(allowed.CodeChallenge),
		RedirectURI:   sha256.Sum256([]byte(allowed.RedirectUri)),
		ExpiresAt:     allowed.CodeExpiresAt.UnixMicro(),
	}, allowed.RedirectUri, allowed.State)
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
		UserID: *allowed.UserID, ClientID: allowed.ClientID, Expected: s.pool.Expected(),
	})
	if err != nil {
		return "", postgres.NoRowsAs(err, ErrRequestEnded)
	}
	if user.Version != *allowed.DecidedVersion {
		return "", ErrRequestEnded
	}
	return s.codeCallback(authorizationCode{
		UserID:        *allowed.UserID,
		ClientID:      allowed.ClientID,
		Version:       *allowed.DecidedVersion,
		Scopes:        allowed.Scopes,
		HistoryFrom:   historyFrom(user, *allowed.ConsentDay),
		CodeChallenge: [sha256.Size]byte(allowed.CodeChallenge),
		RedirectURI:   sha256.Sum256([]byte(allowed.RedirectUri)),
		ExpiresAt:     allowed.CodeExpiresAt.UnixMicro(),
	}, allowed.RedirectUri, allowed.State)
}

// historyFrom returns the first day of the connection after the exchange of a code. While the version is the same, so is the day.
func historyFrom(user oauthdb.GetConsentUserRow, consentDay time.Time) int64 {
	if user.Connected {
		return user.HistoryFrom.Unix()
	}
	return consentDay.Unix()
}

func (s *Server) codeCallback(content authorizationCode, redirectURI, state string) (string, error) {
	code, err := s.seal(credential.AuthorizationCode, content)
	return callbackURL(redirectURI, state, "code", code), err
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
