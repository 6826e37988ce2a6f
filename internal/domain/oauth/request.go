package oauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Request is a pending authorization request, as the sign-in pages show it.
type Request struct {
	Partner     Partner
	CallbackURL string
	Scopes      scope.Set
	ExpiresAt   time.Time
	Left        time.Duration // until ExpiresAt, by the database's clock; only before sign-in
	SignedIn    bool
}

// SealedRequest is an authorization request before sign-in. Only its browser stores it.
type SealedRequest struct {
	ID     uuid.UUID
	Sealed string // at most 3,500 characters
}

// pendingRequest is the content of a [SealedRequest].
type pendingRequest struct {
	requestPayload
	State string
}

// requestPayload is the part of a pending request that has a fixed size. The state follows it. A change of this payload needs a new
// credential.Kind; requests that were sealed before then end within their ten minutes.
type requestPayload struct {
	ID            uuid.UUID
	Browser       [sha256.Size]byte // hash of a secret that only the browser holds
	ClientID      uuid.UUID
	RedirectURI   [sha256.Size]byte // hash of the registered callback
	Scopes        scope.Set
	CodeChallenge [sha256.Size]byte
	ExpiresAt     int64
}

// unsealRequest opens what [Server.Authorize] sealed and this browser brought. Error: ErrRequestEnded if it belongs to another browser.
func (s *Server) unsealRequest(sealed SealedRequest, browser [sha256.Size]byte) (request pendingRequest, err error) {
	text, err := s.keys.Open(credential.AuthorizationRequest, sealed.Sealed)
	if err != nil {
		return request, ErrRequestEnded
	}
	rest := bytes.NewReader(text)
	if binary.Read(rest, binary.BigEndian, &request.requestPayload) != nil || request.ID != sealed.ID || request.Browser != browser {
		return request, ErrRequestEnded
	}
	request.State = string(text[len(text)-rest.Len():])
	return request, nil
}

// refusal returns why the client is not active and registered for the request (specification 7.2), or an empty text.
func (r *pendingRequest) refusal(client *registration) Cause {
	switch {
	case !client.Active:
		return UnauthorizedClient
	case sha256.Sum256([]byte(client.CallbackUrl)) != r.RedirectURI:
		return InvalidRequest
	case !client.Scopes.Contains(r.Scopes):
		return InvalidScope
	}
	return ""
}

// registration returns the client of a request. Error: ErrRequestEnded if the client is not active and registered for the request.
func (s *Server) registration(ctx context.Context, request *pendingRequest) (registration, error) {
	client, known, err := s.registrations.Ask(ctx, request.ClientID)
	if err == nil && (!known || request.refusal(&client) != "") {
		err = ErrRequestEnded
	}
	return client, postgres.Wrap("authorization request", err)
}

// OpenRequest returns a pending request before sign-in. Concurrent calls share a statement. Error: ErrRequestEnded.
func (s *Server) OpenRequest(ctx context.Context, sealed SealedRequest, browser [sha256.Size]byte) (Request, error) {
	request, err := s.unsealRequest(sealed, browser)
	if err != nil {
		return Request{}, err
	}
	client, err := s.registration(ctx, &request)
	if err != nil {
		return Request{}, err
	}
	expires := time.UnixMicro(request.ExpiresAt)
	if !expires.After(client.Now) {
		return Request{}, ErrRequestEnded
	}
	return Request{Partner: partnerOf(&client), CallbackURL: client.CallbackUrl, Scopes: request.Scopes, ExpiresAt: expires, Left: expires.Sub(client.Now)}, nil
}

// Request returns a pending request after sign-in. session is the hash of the sign-in's secret. Error: ErrRequestEnded.
func (s *Server) Request(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) (Request, error) {
	row, err := s.queries.GetAuthorizationRequest(ctx, oauthdb.GetAuthorizationRequestParams{
		RequestID: id, SessionHash: session[:],
	})
	if err != nil {
		return Request{}, postgres.NoRowsAs(err, ErrRequestEnded)
	}
	return Request{
		Partner:     Partner{row.ClientID, row.Name, row.HomepageUrl, row.PrivacyUrl, row.TermsUrl, row.Logo},
		CallbackURL: row.RedirectUri,
		Scopes:      row.Scopes,
		ExpiresAt:   row.ExpiresAt,
		SignedIn:    true,
	}, nil
}

// CountRequests returns how many pending requests a user has signed in to, counted up to a thousand.
func (s *Server) CountRequests(ctx context.Context, userID uuid.UUID) (int64, error) {
	return s.queries.CountRequestsOfUser(ctx, userID)
}

// Why a request cannot continue.
const (
	EndedByDecision = "decided"
	EndedByTime     = "expired" // its lifetime or its day is over, or its user was deleted
	EndedElsewhere  = "cookies" // this browser does not have the request
	EndedByPartner  = "partner" // the client is disabled, or no longer registered for the request
)

// Ending is why a request cannot continue, and the partner that sent it if this browser may know.
type Ending struct {
	Cause   string
	Denied  bool // by the decision
	Partner Partner
	Refusal Cause // of the client's registration by now (specification 7.2)
}

// Ending returns why a request cannot continue. Error: ErrRequestEnded if the cause cannot be found.
func (s *Server) Ending(ctx context.Context, sealed SealedRequest, browser [sha256.Size]byte) (Ending, error) {
	request, err := s.unsealRequest(sealed, browser)
	if err != nil {
		return Ending{Cause: EndedElsewhere}, nil //nolint:nilerr // another browser may not learn the partner
	}
	client, known, err := s.registrations.Ask(ctx, request.ClientID)
	if err != nil || !known {
		return Ending{}, ErrRequestEnded //nolint:nilerr // the page shows no cause
	}
	ending := Ending{Cause: EndedByTime, Partner: partnerOf(&client), Refusal: request.refusal(&client)}
	stored, err := s.queries.FindRequest(ctx, oauthdb.FindRequestParams{RequestID: sealed.ID, BrowserHash: browser[:]})
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return Ending{}, ErrRequestEnded //nolint:nilerr // the page shows no cause
	case stored.Decision != nil:
		ending.Cause, ending.Denied = EndedByDecision, *stored.Decision != "allow"
	case ending.Refusal != "":
		ending.Cause = EndedByPartner
	}
	return ending, nil
}

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
		UserID: userID, ClientID: request.ClientID,
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
	return row.SignedOut, postgres.NoRowsAs(err, nil)
}

// SignOut reverts the sign-in to a request, so that another user can sign in. Without a sign-in it changes nothing.
func (s *Server) SignOut(ctx context.Context, id uuid.UUID, session [sha256.Size]byte) error {
	_, err := s.queries.SignOutAuthorizationRequest(ctx, oauthdb.SignOutAuthorizationRequestParams{RequestID: id, SessionHash: session[:]})
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
	return s.keys.Seal(credential.RequestSession, session)
}

// OpenSession opens a sealed session. That it opens proves that the user signed in. Whether the request can continue is decided by the
// acts on it. Error: [credential.ErrInvalid].
func (s *Server) OpenSession(sealed string) (Session, error) {
	return credential.OpenAs[Session](s.keys, credential.RequestSession, sealed)
}
