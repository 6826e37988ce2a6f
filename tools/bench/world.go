package main

import (
	"context"
	"crypto/md5" //nolint:gosec // makes the same ids here and in SQL
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// The users and partners of the bench are numbered; their ids are hashes of the numbers, here and in SQL.
const (
	baseURL  = "https://localhost"
	callback = "https://partner.example/callback"
	secret   = "svci_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG" // of every client
	verifier = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

	users = 20_000

	// Clients.
	oneClient     = 0   // the one that "one client" is about
	firstReader   = 1   // the many clients that read
	firstPair     = 100 // those whose codes are exchanged, tokens refreshed and revoked
	refreshing    = 200
	limitRefresh  = 201 // those of the limits
	limitReader   = 202
	limitRevoke   = 203
	limitExchange = 300 // and the others of the many
	many          = 99  // clients, where there are many
	consents      = 300 // users who may be connected with each of the many
	clients       = 400
	partnerB      = firstReader // which others than the troubled partner are connected with

	// Readers of the daily reads have two rides a day; readers of pages have 520 in the month.
	readers   = 400
	days      = 31
	pageRides = 520
)

func userID(n int) uuid.UUID   { return md5.Sum(fmt.Appendf(nil, "user %d", n)) }   //nolint:gosec // see above
func clientID(n int) uuid.UUID { return md5.Sum(fmt.Appendf(nil, "client %d", n)) } //nolint:gosec // see above

var secretHash, challenge = sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(verifier))

// limitHash is that of the refresh tokens of the limits' connections.
const limitHash = "sha256('limit')"

// authorizeAgain makes revoked connections whole; which ones is to follow.
const authorizeAgain = "update connections set state = 'authorized', refresh_hash = " + limitHash + " where state = 'revoked' and "

func theClient(n int) string { return "'" + clientID(n).String() + "'" }

// theClients is a condition in SQL: n clients from one on.
func theClients(first, n int) string {
	return fmt.Sprintf("client_id in (select md5('client ' || n)::uuid from generate_series(%d, %d) n)", first, first+n-1)
}

// populate fills an empty database, but for the activity. Foreign keys are off.
func (s *stage) populate(ctx context.Context) error {
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"set statement_timeout = 0", nil},
		{"set session_replication_role = replica", nil},
		{`insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads, created_at)
			select md5('client ' || n)::uuid, 'Partner ' || n, $1, 7, $2, 1000000, 1000000, 10000, now() from generate_series(0, $3 - 1) n`,
			[]any{callback, secretHash[:], clients}},
		{`insert into users (user_id, email, timezone, registered_on, created_at)
			select md5('user ' || n)::uuid, n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(0, $1 - 1) n`, []any{users}},
		{`insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
				refresh_generation, refresh_hash, refresh_deadline, last_read_at, steps_read_at, cycling_read_at, rides_read_at)
			select md5('user ' || n)::uuid, md5('client ' || c)::uuid, gen_random_uuid(), 1, 'authorized', 7, current_date - 30, now(),
				1, sha256('limit'), now() + interval '90 days', now(), now(), now(), now()
			from (select n, $1::int as c from generate_series(0, $4 - 1) n
				union all select n, $2 from generate_series(0, 255) n
				union all select n, $3 from generate_series(0, 2 * $5 - 1) n) pairs`,
			[]any{limitRevoke, limitRefresh, limitReader, users, readers}},
	} {
		if _, err := s.conn.Exec(ctx, statement.sql, statement.args...); err != nil {
			return fmt.Errorf("%s: %w", strings.Fields(statement.sql)[:4], err)
		}
	}
	return nil
}

// move records the rides of readers and the steps of all users, by date and then by user, as a feed brings them: a user's rows are not beside each
// other. The key is made at the end, so that a hundred million rows take minutes and not hours; the statements are bounded.
func (s *stage) move(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, `insert into cycling_activities (user_id, start_time, end_time, distance_meters, source_id)
		select md5('user ' || n)::uuid, at, at + interval '40 minutes', 5000 + (n * 31 + r) % 20000, 'ride-' || r
		from generate_series(0, 2 * $1 - 1) n, generate_series(0, $2 - 1) r,
			lateral (select current_date - 30 + make_interval(secs => 86400 * 30.9 * r / case when n < $1 then $3 else $2 end) as at) t
		where r < case when n < $1 then $3 else $2 end`, readers, pageRides, 2*days); err != nil {
		return err
	}
	if _, err := s.conn.Exec(ctx, "alter table daily_steps drop constraint daily_steps_pkey"); err != nil {
		return err
	}
	const daysAtOnce = 2_000_000 / users
	for first := max(s.StepsRows/users, days) - 1; first >= 0; first -= daysAtOnce {
		if _, err := s.conn.Exec(ctx, `insert into daily_steps (user_id, date, steps)
			select u.user_id, current_date - d, 1000 + (u.n * 7919 + d * 31) % 15000
			from generate_series($1::int, $2, -1) d,
				lateral (select user_id, split_part(email, '@', 1)::int as n from users where d is not null) u`,
			first, max(0, first-daysAtOnce+1)); err != nil {
			return err
		}
	}
	return s.exec(ctx, "alter table daily_steps add primary key (user_id, date)",
		"set session_replication_role = origin", "vacuum analyze", "checkpoint")
}
