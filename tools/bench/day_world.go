package main

import (
	"context"
	"fmt"
	"time"
)

// In the world of a day, users, partners and their connections are numbered. The callers' steps begin with these.
const (
	firstCaller = 1000
	firstAsking = 100
)

func userEmail(n int) string { return fmt.Sprintf("user-%d@user.example", n) }

// populateDay fills an empty database: each user is connected with one partner of many, half of them with the first, too, and a tenth with a
// third one. One of twenty connections has lapsed, and one is revoked.
func (s *stage) populateDay(ctx context.Context, users, partners int) error {
	const of = "md5('client ' || %s)::uuid"
	client := func(n string) string { return fmt.Sprintf(of, n) }
	began := time.Now()
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"alter system set max_wal_size = '16GB'", nil}, // no checkpoints while it is filled
		{"select pg_reload_conf()", nil},
		{"set statement_timeout = 0", nil},
		{"set session_replication_role = replica", nil},
		{"set synchronous_commit = off", nil},
		{`insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads, contact_email, created_at)
			select ` + client("n") + `, 'Partner ' || n, $1, 7, $2, 600, 60, 10, 'it-' || n || '@partner.example', now() - n * interval '1 minute'
			from generate_series(0, $3 - 1) n`, []any{callback, secretHash[:], partners}},
		{`insert into users (user_id, email, timezone, registered_on, created_at)
			select md5('user ' || n)::uuid, 'user-' || n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(0, $1 - 1) n`, []any{users}},
		{"insert into user_addresses (address, user_id, email) select email, user_id, email from users", nil},
		{`insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
				refresh_generation, refresh_hash, refresh_deadline, last_read_at)
			select md5('user ' || n)::uuid, c, gen_random_uuid(), 1, case when n % 20 = 7 then 'revoked' else 'authorized' end, 7, current_date - 30,
				at, 1, case when n % 20 <> 7 then sha256('limit') end, case when n % 20 = 8 then now() - interval '1 day' else now() + interval '90 days' end, now()
			from (select n, ` + client("1 + n * 7919::bigint % ($2 - 1)") + ` as c, now() - n % 400 * interval '1 day' as at from generate_series(0, $1 - 1) n
				union all select n, ` + client("0") + `, now() - n % 30 * interval '1 day' from generate_series(0, $1 / 2 - 1) n
				union all select n, ` + client("1 + (n * 7919::bigint + 1) % ($2 - 1)") + `, now() - n % 90 * interval '1 day' from generate_series(0, $1 / 10 - 1) n
			) pairs`, []any{users, partners}},
		{"insert into grant_directory (grant_id, user_id, client_id) select grant_id, user_id, client_id from connections", nil},
		{`insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail, at)
			select c.user_id, actor, action, c.user_id, c.client_id, 1, detail::jsonb, c.authorized_at + wait
			from connections c
			cross join (values ('user', 'consent.allowed', '{"scopes": 7}', interval '0'), ('client', 'connection.authorized', '{"scopes": 7}', interval '1 second'))
				as act (actor, action, detail, wait)
			where action <> 'connection.authorized' or c.authorized_at > now() - interval '270 days'
			union all
			select c.user_id, 'client', 'connection.revoked', c.user_id, c.client_id, 1, '{"reason": "refresh_token_revoked"}', now()
			from connections c where c.state = 'revoked'`, nil},
		{`insert into daily_steps (user_id, date, steps)
			select md5('user ' || n)::uuid, current_date - d, 1000 + (n * 7919::bigint + d * 31) % 15000
			from generate_series($1::int, $1 + 999) n, generate_series(0, 61) d`, []any{firstCaller}},
		{`insert into usage_hours (client_id, hour, operation, status, requests, durations)
			select ` + client("n") + `, date_trunc('hour', now()) - h * interval '1 hour', operation, status, 100, array[0, 50, 50]
			from generate_series(0, $1 - 1) n, generate_series(0, 23) h,
				(values ('listDailyActivity', 200), ('requestToken', 200), ('listDailyActivity', 429)) as kind (operation, status)`, []any{partners}},
		{`insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
			select ` + client("n") + `, true, now() - e * interval '1 minute', 'requestToken', 400, 'invalid_grant', 'refresh_token is not the current one', 1
			from generate_series(0, 999) n, generate_series(1, 50) e`, nil},
		{`insert into webhook_endpoints (client_id, url, secret) select ` + client("n") + `, 'https://partner.example/hook', 'sealed' from generate_series(0, 999) n`, nil},
		{`insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, queued, state, attempts, created_at)
			select gen_random_uuid(), ` + client("n % 1000") + `, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', true,
				case when n % 10000 < 1000 then 'failed' else 'delivered' end, 10, now() - n * interval '20 seconds'
			from generate_series(0, 99999) n`, nil},
		{"insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, fault) select user_id, event_id, 10, now(), 5000, 'cannot connect' from webhook_events where state = 'failed'", nil},
		{"set session_replication_role = origin", nil},
		{"vacuum analyze", nil},
		{"checkpoint", nil},
	} {
		if _, err := s.conn.Exec(ctx, statement.sql, statement.args...); err != nil {
			return fmt.Errorf("%.60s: %w", statement.sql, err)
		}
	}
	fmt.Printf("the world of %d users took %s\n", users, time.Since(began).Round(time.Second))
	return nil
}
