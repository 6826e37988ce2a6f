package oauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
	"connect-svc/internal/scope"
)

// Asked is an authorization request in which nobody has signed in yet. Its browser keeps it, and nobody else.
type Asked struct {
	ID     uuid.UUID
	Sealed string // at most 3,500 characters
}

// asked is what [Asked] seals.
type asked struct {
	sealedRequest
	State string
}

// sealedRequest is the part of an authorization request whose size is fixed; the state follows it. The form of this payload may
// change with a new credential.Kind alone: requests of an older program end with their ten minutes.
type sealedRequest struct {
	ID            uuid.UUID
	Browser       [sha256.Size]byte // hash of the secret that only the browser holds which asked
	ClientID      uuid.UUID
	RedirectURI   [sha256.Size]byte // its hash: it is the registered one
	Scopes        scope.Set
	CodeChallenge [sha256.Size]byte
	ExpiresAt     int64
}

func (s *Server) sealAsked(request asked) (string, error) {
	text, err := binary.Append(nil, binary.BigEndian, request.sealedRequest)
	if err != nil {
		return "", err
	}
	return s.keys.Seal(credential.AuthorizationRequest, append(text, request.State...))
}

func (s *Server) openAsked(sealed string) (request asked, err error) {
	text, err := s.keys.Open(credential.AuthorizationRequest, sealed)
	if err != nil {
		return request, err
	}
	rest := bytes.NewReader(text)
	if err := binary.Read(rest, binary.BigEndian, &request.sealedRequest); err != nil {
		return request, credential.ErrInvalid
	}
	request.State = string(text[len(text)-rest.Len():])
	return request, nil
}

// active is the status of a client that may do what it is registered for.
const active = "active"

// registration is what the database says of a client at a moment.
type registration = oauthdb.ListRegistrationsRow

// fits says whether the client is registered for what was asked.
func (a *asked) fits(registered *registration) bool {
	return registered.Status == active && sha256.Sum256([]byte(registered.CallbackUrl)) == a.RedirectURI && registered.Scopes.Contains(a.Scopes)
}

// registrationsAtOnce is how many clients are looked up by one statement.
const registrationsAtOnce = 500

// listRegistrations are those of many clients.
func (s store) listRegistrations(ctx context.Context, clientIDs []uuid.UUID) (map[uuid.UUID]registration, error) {
	rows, err := s.queries.ListRegistrations(ctx, clientIDs)
	found := make(map[uuid.UUID]registration, len(rows))
	for _, row := range rows {
		found[row.ClientID] = row
	}
	return found, err
}

func partnerOf(row *registration) Partner {
	return Partner{row.ClientID, row.Name, row.HomepageUrl, row.PrivacyUrl, row.TermsUrl, row.Logo}
}

// PartnerOf returns how users see a client. Error: ErrRequestEnded, where there is none.
func (s *Server) PartnerOf(ctx context.Context, clientID uuid.UUID) (Partner, error) {
	found, known, err := s.registrations.Ask(ctx, clientID)
	if err == nil && !known {
		err = ErrRequestEnded
	}
	return partnerOf(&found), err
}

// Asked returns a pending request in which nobody has signed in yet, by what its browser kept. All who ask at a time share a
// statement. Error: ErrRequestEnded.
func (s *Server) Asked(ctx context.Context, of Asked, browser [sha256.Size]byte) (Request, error) {
	request, err := s.openAsked(of.Sealed)
	if err != nil || request.ID != of.ID || request.Browser != browser {
		return Request{}, ErrRequestEnded
	}
	registered, known, err := s.registrations.Ask(ctx, request.ClientID)
	if err != nil {
		return Request{}, fmt.Errorf("authorization request: %w", err)
	}
	expires := time.UnixMicro(request.ExpiresAt)
	if !known || !request.fits(&registered) || !expires.After(registered.Now) {
		return Request{}, ErrRequestEnded
	}
	return Request{
		Partner: partnerOf(&registered), CallbackURL: registered.CallbackUrl, Scopes: request.Scopes, ExpiresAt: expires,
	}, nil
}

// Ending says why a request cannot go on, by what its browser kept. Error: ErrRequestEnded, where nothing can be said.
func (s *Server) Ending(ctx context.Context, of Asked, browser [sha256.Size]byte) (Ending, error) {
	request, err := s.openAsked(of.Sealed)
	if err != nil || request.ID != of.ID || request.Browser != browser {
		return Ending{Cause: EndedElsewhere}, nil // and not a word about whose it is
	}
	registered, known, err := s.registrations.Ask(ctx, request.ClientID)
	switch {
	case err != nil || !known:
		return Ending{}, ErrRequestEnded //nolint:nilerr // the page says that it does not know
	case !request.fits(&registered):
		return Ending{EndedByPartner, partnerOf(&registered)}, nil
	}
	return Ending{EndedByTime, partnerOf(&registered)}, nil
}

// SignedIn records who signed in for a request: whoever was the first stays, and it is ErrRequestEnded for others. From
// then on session, the hash of a secret that the browser got for its sign-in, opens the request. Who knows or chose the
// browser's former secret can see and consent to nothing.
func (s *Server) SignedIn(ctx context.Context, of Asked, browser, session [sha256.Size]byte, userID uuid.UUID) error {
	request, err := s.openAsked(of.Sealed)
	if err != nil || request.ID != of.ID || request.Browser != browser {
		return ErrRequestEnded
	}
	registered, known, err := s.registrations.Ask(ctx, request.ClientID)
	if err != nil {
		return err
	}
	if !known || !request.fits(&registered) {
		return ErrRequestEnded
	}
	n, err := s.queries.SignInAuthorizationRequest(ctx, oauthdb.SignInAuthorizationRequestParams{
		RequestID:     request.ID,
		BrowserHash:   browser[:],
		ClientID:      request.ClientID,
		RedirectUri:   registered.CallbackUrl,
		Scopes:        request.Scopes,
		State:         request.State,
		CodeChallenge: request.CodeChallenge[:],
		ExpiresAt:     time.UnixMicro(request.ExpiresAt),
		UserID:        userID,
		SessionHash:   session[:],
	})
	if err == nil && n == 0 {
		return ErrRequestEnded
	}
	return err
}

// DenyAsked ends a request in which nobody has signed in, and returns the address to send the browser to. Nothing is written: the
// browser forgets the request. Where somebody has signed in, in another tab perhaps, it is [Server.Deny].
func (s *Server) DenyAsked(ctx context.Context, of Asked, browser [sha256.Size]byte) (string, error) {
	pending, err := s.Asked(ctx, of, browser)
	if err != nil {
		return "", err
	}
	known, err := s.queries.KnowsRequest(ctx, of.ID)
	if err != nil {
		return "", postgres.Failed("deny", err)
	}
	if known {
		return s.Deny(ctx, of.ID, browser)
	}
	request, err := s.openAsked(of.Sealed)
	return callbackURL(pending.CallbackURL, request.State, "error", "access_denied"), err
}

// requestSession is what the cookie seals of a sign-in to a request.
type requestSession struct {
	RequestID, UserID uuid.UUID
	Browser           [sha256.Size]byte // as in [Asked]
	Secret            [32]byte
}

// Session is a sign-in to an authorization request, as its browser keeps it.
type Session struct {
	UserID uuid.UUID
	Secret [32]byte
}

// Hash is what the acts on the request are given.
func (s Session) Hash() [sha256.Size]byte { return sha256.Sum256(s.Secret[:]) }

// SealSession is for the browser that signed in.
func (s *Server) SealSession(requestID uuid.UUID, browser [sha256.Size]byte, session Session) (string, error) {
	return s.seal(credential.RequestSession, requestSession{requestID, session.UserID, browser, session.Secret})
}

// OpenSession opens what a browser kept of its sign-in to a request. That it opens says that somebody did sign in, not that the
// request can go on: the acts find that out.
func (s *Server) OpenSession(sealed string) (requestID uuid.UUID, browser [sha256.Size]byte, session Session, ok bool) {
	opened, err := open[requestSession](s, credential.RequestSession, sealed)
	return opened.RequestID, opened.Browser, Session{opened.UserID, opened.Secret}, err == nil
}
