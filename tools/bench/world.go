package main

import (
	"context"
	"crypto/md5" //nolint:gosec // makes the same ids here and in SQL
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"connect-svc/internal/oauth"
)

// The people and companies of the bench are numbered; their ids are hashes of the numbers, here and in SQL.
const (
	baseURL  = "https://localhost"
	callback = "https://partner.example/callback"
	secret   = "svci_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG" // of every client
	verifier = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

	users    = 20_000
	allScope = 7

	oneClient    = 0   // the one that "over one client" is about
	firstReader  = 1   // the many clients that read
	firstPair    = 100 // those whose codes are exchanged, tokens refreshed and revoked
	limitRevoke  = 200 // those of pgbench
	limitRefresh = 201
	limitReader  = 202
	refreshing   = 203
	firstLimit   = 300
	many         = 99 // clients, where there are many
	clients      = 400

	// Readers of the daily reads have two rides a day; readers of pages have 520 in the month.
	readers   = 400
	days      = 31
	pageRides = 520
)

func userID(n int) uuid.UUID   { return md5.Sum(fmt.Appendf(nil, "user %d", n)) }   //nolint:gosec // see above
func clientID(n int) uuid.UUID { return md5.Sum(fmt.Appendf(nil, "client %d", n)) } //nolint:gosec // see above

// credentials of a client, whose secret all have.
func credentials(n int) oauth.Credentials {
	return oauth.Credentials{ClientID: clientID(n), SecretHash: sha256.Sum256([]byte(secret))}
}

// populate fills an empty database. Triggers and foreign keys are off, but for what a trigger must always do.
func (s *stage) populate(ctx context.Context) error {
	sum := sha256.Sum256([]byte(secret))
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"set statement_timeout = 0", nil},
		{"set session_replication_role = replica", nil},
		{`insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads, created_at)
			select md5('client ' || n)::uuid, 'Partner ' || n, $1, 7, $2, 1000000, 1000000, 10000, now() from generate_series(0, $3 - 1) n`,
			[]any{callback, sum[:], clients}},
		{`insert into users (user_id, email, timezone, registered_on, created_at)
			select md5('user ' || n)::uuid, n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(0, $1 - 1) n`, []any{users}},
		{`insert into cycling_activities (user_id, start_time, end_time, distance_meters, source_id)
			select md5('user ' || n)::uuid, at, at + interval '40 minutes', 5000 + (n * 31 + r) % 20000, 'ride-' || r
			from generate_series(0, 2 * $1 - 1) n, generate_series(0, $2 - 1) r,
				lateral (select current_date - 30 + make_interval(secs => 86400 * 30.9 * r / case when n < $1 then $3 else $2 end) as at) t
			where r < case when n < $1 then $3 else $2 end`, []any{readers, pageRides, 2 * days}},
		{`insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
				refresh_generation, refresh_hash, refresh_deadline, last_read_at)
			select md5('user ' || n)::uuid, md5('client ' || c)::uuid, gen_random_uuid(), 1, 'authorized', 7, current_date - 30, now(),
				1, sha256('limit'), now() + interval '90 days', now()
			from (select n, $1::int as c from generate_series(0, $4 - 1) n
				union all select n, $2 from generate_series(0, 255) n
				union all select n, $3 from generate_series(0, 2 * $5 - 1) n) pairs`,
			[]any{limitRevoke, limitRefresh, limitReader, users, readers}},
	} {
		if _, err := s.conn.Exec(ctx, statement.sql, statement.args...); err != nil {
			return fmt.Errorf("%s: %w", strings.Fields(statement.sql)[:4], err)
		}
	}
	if err := s.walk(ctx); err != nil {
		return fmt.Errorf("daily steps: %w", err)
	}
	for _, statement := range []string{"set session_replication_role = origin", "vacuum analyze", "checkpoint"} {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// walk records the steps of all users, by date and then by user, as a feed brings them: a user's rows are not beside each
// other. The key is made at the end, so that a hundred million rows take minutes and not hours; the statements are bounded,
// because a trigger looks at the rows of each.
func (s *stage) walk(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, "alter table daily_steps drop constraint daily_steps_pkey"); err != nil {
		return err
	}
	const daysAtOnce = 2_000_000 / users
	for first := max(s.settings.stepsRows/users, days) - 1; first >= 0; first -= daysAtOnce {
		if _, err := s.conn.Exec(ctx, `insert into daily_steps (user_id, date, steps)
			select u.user_id, current_date - d, 1000 + (u.n * 7919 + d * 31) % 15000
			from generate_series($1::int, $2, -1) d,
				lateral (select user_id, split_part(email, '@', 1)::int as n from users where d is not null) u`,
			first, max(0, first-daysAtOnce+1)); err != nil {
			return err
		}
	}
	_, err := s.conn.Exec(ctx, "alter table daily_steps add primary key (user_id, date)")
	return err
}

// pair is a user and a client, by their numbers.
type pair struct{ user, client int }

// nextPairs are some that were never connected.
func (s *stage) nextPairs(n int) []pair {
	pairs := make([]pair, n)
	for i := range pairs {
		k := s.usedPairs + i
		pairs[i] = pair{(k / many) % users, firstPair + k%many}
	}
	s.usedPairs += n
	return pairs
}

// codes lets the users allow the clients: requests that are signed in and were shown their consent are made by SQL, the
// codes by the authorization server.
func (s *stage) codes(ctx context.Context, pairs []pair) ([]string, error) {
	requests, userIDs, clientIDs := make([]uuid.UUID, len(pairs)), make([]uuid.UUID, len(pairs)), make([]uuid.UUID, len(pairs))
	for i, p := range pairs {
		requests[i], userIDs[i], clientIDs[i] = uuid.New(), userID(p.user), clientID(p.client)
	}
	browser, challenge := sha256.Sum256(nil), sha256.Sum256([]byte(verifier))
	if _, err := s.conn.Exec(ctx, `insert into authorization_requests (request_id, browser_hash, client_id, redirect_uri, scopes, state,
			code_challenge, expires_at, user_id, consent_day)
		select request, $4, client, $5, 7, '0123456789012345678901', $6, now() + interval '10 minutes', person, current_date
		from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as t (request, person, client)`,
		requests, userIDs, clientIDs, browser[:], callback, challenge[:]); err != nil {
		return nil, err
	}
	codes := make([]string, len(pairs))
	err := inParallel(ctx, len(pairs), func(ctx context.Context, i int) error {
		location, err := s.oauth.Allow(ctx, requests[i], browser)
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

// tokens connects the users with the clients.
func (s *stage) tokens(ctx context.Context, pairs []pair) ([]oauth.Tokens, error) {
	codes, err := s.codes(ctx, pairs)
	if err != nil {
		return nil, err
	}
	tokens := make([]oauth.Tokens, len(pairs))
	err = inParallel(ctx, len(pairs), func(ctx context.Context, i int) (err error) {
		tokens[i], err = s.oauth.Exchange(ctx, credentials(pairs[i].client),
			oauth.ExchangeParams{Code: codes[i], RedirectURI: callback, CodeVerifier: verifier})
		return err
	})
	return tokens, err
}

func inParallel(ctx context.Context, n int, act func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(preparers)
	for i := range n {
		group.Go(func() error { return act(ctx, i) })
	}
	return group.Wait()
}

// preparers is how many connections to the database are used between measurements.
const preparers = 32

// purse is connections whose access tokens are kept fresh.
type purse struct {
	pairs  []pair
	tokens []oauth.Tokens
	issued time.Time
}

func (s *stage) newPurse(ctx context.Context, pairs []pair) (*purse, error) {
	tokens, err := s.tokens(ctx, pairs)
	if err != nil {
		return nil, err
	}
	for i, p := range pairs { // the consent was a month ago
		if i%1000 == 0 {
			batch := pairs[i:min(i+1000, len(pairs))]
			userIDs, clientIDs := make([]uuid.UUID, len(batch)), make([]uuid.UUID, len(batch))
			for j, p := range batch {
				userIDs[j], clientIDs[j] = userID(p.user), clientID(p.client)
			}
			if _, err := s.conn.Exec(ctx, `update connections c set history_from = current_date - 30, last_read_at = now()
				from unnest($1::uuid[], $2::uuid[]) as t (u, c) where c.user_id = t.u and c.client_id = t.c`, userIDs, clientIDs); err != nil {
				return nil, fmt.Errorf("users from %d: %w", p.user, err)
			}
		}
	}
	return &purse{pairs, tokens, time.Now()}, nil
}

// fresh refreshes all tokens when they are about to expire, or at once.
func (s *stage) fresh(ctx context.Context, p *purse, now bool) error {
	if !now && time.Since(p.issued) < 200*time.Second {
		return nil
	}
	err := inParallel(ctx, len(p.pairs), func(ctx context.Context, i int) (err error) {
		p.tokens[i], err = s.oauth.Refresh(ctx, credentials(p.pairs[i].client), p.tokens[i].RefreshToken)
		return err
	})
	p.issued = time.Now()
	return err
}

// The requests, as they go over the wire.

func formHead(path string, client int) string {
	credentials := base64.StdEncoding.EncodeToString([]byte(clientID(client).String() + ":" + secret))
	return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + credentials +
		"\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n"
}

func formRequest(path string, client int, form string) string {
	return formOf(formHead(path, client), form)
}

// formOf is the request of a head that formHead made.
func formOf(head, form string) string {
	return strings.Replace(head, "{length}", fmt.Sprint(len(form)), 1) + form
}

func getRequest(path, token string) string {
	request := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	if token != "" {
		request += "Authorization: Bearer " + token + "\r\n"
	}
	return request + "\r\n"
}
