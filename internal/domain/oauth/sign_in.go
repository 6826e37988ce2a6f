package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
)

// SignIn records the user who signed in for a request, and the user's calendar day: the consent is asked for at once, and only on this day. The
// first user stays; for another one the error is ErrRequestEnded, as for a user who was deleted. From then on
// the request is opened by session, the hash of a secret that the browser received for its sign-in. Someone who knows or chose the
// browser's earlier secret can neither see the request nor consent to it.
func (s *Server) SignIn(ctx context.Context, sealed SealedRequest, browser, session [sha256.Size]byte, userID uuid.UUID) error {
	request, err := s.unsealRequest(sealed, browser)
	if err != nil {
		return err
	}
	client, err := s.registration(ctx, &request)
	if err != nil {
		return err
	}
	user, err := s.queries.GetConsentUser(ctx, oauthdb.GetConsentUserParams{
		UserID: userID, ClientID: request.ClientID, Expected: s.pool.Expected(),
	})
	if err != nil {
		return postgres.NoRowsAs(err, ErrRequestEnded)
	}
	_, err = s.queries.SignInAuthorizationRequest(ctx, oauthdb.SignInAuthorizationRequestParams{
		RequestID:     request.ID,
		BrowserHash:   browser[:],
		ClientID:      request.ClientID,
		RedirectUri:   client.CallbackUrl,
		Scopes:        request.Scopes,
		State:         request.State,
		CodeChallenge: request.CodeChallenge[:],
		ExpiresAt:     time.UnixMicro(request.ExpiresAt),
		UserID:        userID,
		SessionHash:   session[:],
		ConsentDay:    today(user),
	})
	return postgres.NoRowsAs(err, ErrRequestEnded)
}

// IsSignedOut reports whether the sign-in to a pending request was reverted, so that its browser can sign in again.
func (s *Server) IsSignedOut(ctx context.Context, id uuid.UUID, browser [sha256.Size]byte) (bool, error) {
	row, err := s.queries.FindRequest(ctx, oauthdb.FindRequestParams{RequestID: id, BrowserHash: browser[:]})
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return row.SignedOut, err
}

// SignOut reverts the sign-in to a request, so that another user can sign in. Without a sign-in it changes nothing.
func (s *Server) SignOut(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) error {
	_, err := s.queries.SignOutAuthorizationRequest(ctx, oauthdb.SignOutAuthorizationRequestParams{
		RequestID: id, SessionHash: session[:],
	})
	return err
}

// Session is a sign-in to an authorization request. Its browser stores it, sealed.
type Session struct {
	RequestID, UserID uuid.UUID
	Browser           [sha256.Size]byte // as in [requestPayload]
	Secret            [32]byte
}

// Hash identifies the session to the acts on its request.
func (s Session) Hash() [sha256.Size]byte { return sha256.Sum256(s.Secret[:]) }

// SealSession returns the session for the browser that signed in.
func (s *Server) SealSession(session Session) (string, error) {
	return s.seal(credential.RequestSession, session)
}

// OpenSession opens a sealed session. That it opens proves that the user signed in. Whether the request can continue is decided by the
// acts on it. Error: [credential.ErrInvalid].
func (s *Server) OpenSession(sealed string) (Session, error) {
	return open[Session](s, credential.RequestSession, sealed)
}
