package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/credential"
	"connect-svc/internal/refusal"
	"connect-svc/internal/scope"
)

// Access is what the bearer of an access token may read.
type Access struct {
	UserID, ClientID  uuid.UUID
	GrantID           uuid.UUID
	ConnectionVersion int64
	Scopes            scope.Set
	HistoryFrom       time.Time // the first readable date: midnight UTC
	RegisteredOn      time.Time // the user's registration day: midnight UTC
	Now               time.Time // by the database's clock
	// The client's rate policy (specification section 8).
	RequestsPerMinute, Burst, ConcurrentReads int
}

// Authenticate returns what the bearer of an access token may read now. ErrInvalidAccessToken stands for every case of specification
// 5.2: the token is malformed, expired or revoked; its connection has another version, or is revoked, disconnected or lapsed; the user
// was deleted; or the client is not active.
//
// With that error ClientID is set if the token was issued to a client, even if it gives no access any more.
func (s *Server) Authenticate(ctx context.Context, presented string) (Access, error) {
	token, err := open[accessToken](s, credential.AccessToken, presented)
	if err != nil {
		return Access{}, refusal.Because(ErrInvalidAccessToken, "the access token was not issued by this service, or was altered")
	}
	ctx = asClient(ctx, token.ClientID)
	row, err := s.queries.AuthenticateAccess(ctx, oauthdb.AuthenticateAccessParams{
		UserID:    token.UserID,
		ClientID:  token.ClientID,
		TokenID:   token.TokenID,
		Version:   token.Version,
		ExpiresAt: time.UnixMicro(token.ExpiresAt),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.refuseAccess(ctx, token)
	}
	if err == nil && row.LastReadIsOld {
		err = s.queries.RecordRead(ctx, oauthdb.RecordReadParams{UserID: token.UserID, ClientID: token.ClientID, Version: token.Version})
	}
	if err != nil {
		return Access{ClientID: token.ClientID}, fmt.Errorf("authenticate: %w", err)
	}
	return Access{
		UserID:            token.UserID,
		ClientID:          token.ClientID,
		GrantID:           row.GrantID,
		ConnectionVersion: token.Version,
		Scopes:            row.Scopes,
		HistoryFrom:       row.HistoryFrom,
		RegisteredOn:      row.RegisteredOn,
		Now:               row.Now,
		RequestsPerMinute: int(row.RequestsPerMinute),
		Burst:             int(row.Burst),
		ConcurrentReads:   int(row.ConcurrentReads),
	}, nil
}

// refuseAccess returns ErrInvalidAccessToken with the reason why a token gives no access. If the reason cannot be read, or has changed
// since, the error has none.
func (s *Server) refuseAccess(ctx context.Context, token accessToken) error {
	reason, err := s.queries.RefuseAccess(ctx, oauthdb.RefuseAccessParams{
		UserID:    token.UserID,
		ClientID:  token.ClientID,
		TokenID:   token.TokenID,
		Version:   token.Version,
		ExpiresAt: time.UnixMicro(token.ExpiresAt),
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		reason = "the user was deleted"
	case err != nil:
		return ErrInvalidAccessToken //nolint:nilerr // the reason is only logged
	}
	return refusal.Because(ErrInvalidAccessToken, reason)
}
