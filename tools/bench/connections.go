package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"connect-svc/internal/domain/oauth"
)

// preparers is how many connections to the database are used between measurements.
const preparers = 32

// pair is a user and a client, by their numbers.
type pair struct{ user, client int }

// connection is a user's connection with a client, and its first tokens.
type connection struct {
	pair
	oauth.Tokens
}

// take replaces the tokens by those of a response that has some.
func (c *connection) take(response []byte) error {
	var fresh struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.Unmarshal(response, &fresh); err != nil {
		return err
	}
	c.AccessToken, c.RefreshToken = fresh.AccessToken, fresh.RefreshToken
	return nil
}

// nextPairs are some that were never connected: more than a service can exchange in one measurement.
func (s *stage) nextPairs() []pair {
	pairs := make([]pair, 2500*s.Seconds)
	for i := range pairs {
		pairs[i] = pair{(s.usedPairs / many) % users, firstPair + s.usedPairs%many}
		s.usedPairs++
	}
	return pairs
}

// connectFrom connects n users, from one on, with a partner.
func (s *stage) connectFrom(ctx context.Context, firstUser, n, client int) ([]connection, error) {
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{firstUser + i, client}
	}
	return s.connect(ctx, pairs)
}

func ids(pairs []pair) (userIDs, clientIDs []uuid.UUID) {
	for _, p := range pairs {
		userIDs, clientIDs = append(userIDs, userID(p.user)), append(clientIDs, clientID(p.client))
	}
	return userIDs, clientIDs
}

// codes lets the users allow the clients. Authorization requests of users who are signed in and were shown the consent page
// are inserted by SQL; the codes are issued by the authorization server.
func (s *stage) codes(ctx context.Context, pairs []pair) ([]string, error) {
	requests := make([]uuid.UUID, len(pairs))
	for i := range requests {
		requests[i] = uuid.New()
	}
	userIDs, clientIDs := ids(pairs)
	browser := sha256.Sum256(nil)
	if _, err := s.conn.Exec(ctx, `insert into authorization_requests (request_id, browser_hash, client_id, redirect_uri, scopes, state,
			code_challenge, expires_at, user_id, session_hash, consent_day)
		select request, $4, client, $5, 7, '0123456789012345678901', $6, now() + interval '10 minutes', person, $4, current_date
		from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as t (request, person, client)`,
		requests, userIDs, clientIDs, browser[:], callback, challenge[:]); err != nil {
		return nil, err
	}
	codes := make([]string, len(pairs))
	err := inParallel(ctx, len(pairs), func(ctx context.Context, i int) error {
		location, err := s.oauth.Allow(ctx, requests[i], browser, "")
		if err != nil {
			return err
		}
		parsed, err := url.Parse(location)
		if err != nil {
			return err
		}
		codes[i] = parsed.Query().Get("code")
		return nil
	})
	return codes, err
}

// connect connects users with clients, as if they had consented a month ago.
func (s *stage) connect(ctx context.Context, pairs []pair) ([]connection, error) {
	codes, err := s.codes(ctx, pairs)
	if err != nil {
		return nil, err
	}
	connected := make([]connection, len(pairs))
	if err := inParallel(ctx, len(pairs), func(ctx context.Context, i int) error {
		tokens, err := s.oauth.Exchange(ctx, oauth.Credentials{ClientID: clientID(pairs[i].client), SecretHash: secretHash},
			oauth.ExchangeParams{Code: codes[i], RedirectURI: callback, CodeVerifier: verifier})
		connected[i] = connection{pairs[i], tokens}
		return err
	}); err != nil {
		return nil, err
	}
	userIDs, clientIDs := ids(pairs)
	_, err = s.conn.Exec(ctx, `update connections c set history_from = current_date - 30, last_read_at = now(), steps_read_at = now(),
			cycling_read_at = now(), rides_read_at = now()
		from unnest($1::uuid[], $2::uuid[]) as t (u, c) where c.user_id = t.u and c.client_id = t.c`, userIDs, clientIDs)
	return connected, err
}

// refresh refreshes connections at a service, because access tokens last for five minutes.
func refresh(ctx context.Context, at endpoint, connected []connection) error {
	client := at.client(preparers)
	defer client.CloseIdleConnections()
	return inParallel(ctx, len(connected), func(_ context.Context, i int) error {
		c, response := &connected[i], fasthttp.Response{}
		status, err := send(client, refreshRequest(c.client, c.RefreshToken), &response)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("refresh: status %d: %s", status, response.Body())
		}
		return cmp.Or(err, c.take(response.Body()))
	})
}

func inParallel(ctx context.Context, n int, act func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(preparers)
	for i := range n {
		group.Go(func() error { return act(ctx, i) })
	}
	return group.Wait()
}
