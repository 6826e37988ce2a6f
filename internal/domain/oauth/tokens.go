package oauth

import (
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
)

// Tokens are the response to an exchange or a refresh (specification 2.3).
type Tokens struct {
	GrantID           uuid.UUID
	HistoryFrom       time.Time // a date: midnight UTC
	ConnectionVersion int64
	AccessToken       string
	ExpiresIn         int // seconds, 1 to 300
	RefreshToken      string
	Scopes            scope.Set
}

// withAccessToken adds the access token to the tokens of a connection whose refresh token has just been stored.
func (s *Server) withAccessToken(tokens Tokens, userID, clientID uuid.UUID, now time.Time) (Tokens, error) {
	var err error
	tokens.AccessToken, err = s.seal(credential.AccessToken, accessToken{
		UserID:    userID,
		ClientID:  clientID,
		TokenID:   uuid.New(),
		Version:   tokens.ConnectionVersion,
		ExpiresAt: now.Add(s.settings.AccessTokenLifetime).UnixMicro(),
	})
	if err != nil {
		return Tokens{}, err
	}
	tokens.ExpiresIn = int(s.settings.AccessTokenLifetime / time.Second)
	return tokens, nil
}
