package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
)

// Access is what the bearer of an access token may read: the scopes and dates (midnights UTC), the client's rate policy (specification
// section 8), and Now by the database's clock.
type Access struct {
	UserID, ClientID  uuid.UUID
	ConnectionVersion int64
	// FirstToday means that the client had not read the user's activity on this day (UTC) before, and FirstOfUser that no client had. RecordRead
	// sets them.
	FirstToday, FirstOfUser bool
	oauthdb.AuthenticateAccessRow
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
	params := oauthdb.AuthenticateAccessParams{
		UserID:    token.UserID,
		ClientID:  token.ClientID,
		TokenID:   token.TokenID,
		Version:   token.Version,
		ExpiresAt: time.UnixMicro(token.ExpiresAt),
		Expected:  s.pool.Expected(),
	}
	access := Access{UserID: token.UserID, ClientID: token.ClientID, ConnectionVersion: token.Version}
	row, err := s.queries.AuthenticateAccess(ctx, params)
	if errors.Is(err, pgx.ErrNoRows) { // or a cluster placed the table after the statement took its snapshot, which sees no row of it
		row, err = s.queries.AuthenticateAccess(ctx, params)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = refusal.Because(ErrInvalidAccessToken, "the user was deleted")
	case err == nil && !row.Believed:
		err = postgres.ErrClock
	case err == nil && row.Refusal != "":
		err = refusal.Because(ErrInvalidAccessToken, row.Refusal)
	}
	if err != nil {
		return Access{ClientID: token.ClientID}, fmt.Errorf("authenticate: %w", err)
	}
	access.AuthenticateAccessRow = row
	return access, nil
}

// RecordRead records that the bearer of an access token reads what a scope grants, unless a read within the last hour is recorded: so most
// reads write nothing.
func (s *Server) RecordRead(ctx context.Context, access *Access, of scope.Set) error {
	if !access.LastReadIsOld {
		return nil
	}
	read, err := s.queries.RecordRead(asClient(ctx, access.ClientID), oauthdb.RecordReadParams{
		UserID: access.UserID, ClientID: access.ClientID, Version: access.ConnectionVersion, Of: int16(of),
	})
	access.FirstToday, access.FirstOfUser = read.FirstOfClient, read.FirstOfClient && read.FirstOfUser
	return postgres.Wrap("record a read", postgres.NoRowsAs(err, nil)) // no row: another act has it
}
