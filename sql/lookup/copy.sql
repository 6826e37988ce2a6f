-- Reads all that the database has about a user, as JSON for a copy. Each statement has the rows of the table in its name, without hashes,
-- seeds and other parts of secrets. Those of tables that may have many rows of a user read a part after a position. Operators are not named.

-- name: CopyUser :many
select to_json(connect_now())::json as made_at, row_to_json(r)::json as body
from (select user_id, email, timezone, registered_on, created_at, language from users where users.user_id = @user_id) r;

-- name: ListGrantsOfUser :many
select grant_id from connections where user_id = @user_id;

-- name: CopyConnections :many
select row_to_json(r)::json
from (
    select c.client_id, p.name as client_name, c.grant_id, c.version::text as connection_version,
        connection_state(c.state, c.refresh_deadline) as state, scope_text(c.scopes) as scopes, c.history_from, c.authorized_at,
        case when c.version <= c.browser_version + 1 then c.browser else '' end as browser,
        c.refresh_deadline, c.last_read_at, c.steps_read_at, c.cycling_read_at, c.rides_read_at, c.lapse_told is not distinct from c.refresh_deadline as lapse_told
    from connections c join clients p on p.client_id = c.client_id
    where c.user_id = @user_id
    order by c.client_id
) r;

-- name: CopyDailySteps :many
select s.date, json_build_object('date', s.date, 'steps', s.steps, 'observed_at', s.observed_at)::json as body
from daily_steps s
where s.user_id = @user_id and s.date > @after
order by s.date
limit @max_rows;

-- name: CopyStepCorrections :many
select c.date, c.correction_id, json_build_object('date', c.date, 'correction_id', c.correction_id, 'delta', c.delta, 'note', c.note,
    'created_at', c.created_at)::json as body
from step_corrections c
where c.user_id = @user_id and (c.date, c.correction_id) > (@after_date::date, @after_id::uuid)
order by c.date, c.correction_id
limit @max_rows;

-- name: CopyCyclingActivities :many
select a.start_time, a.source_id, json_build_object('source_id', a.source_id,
    'recorded_start_time', to_char(a.start_time, 'YYYY-MM-DD"T"HH24:MI:SS.US'),
    'recorded_end_time', to_char(a.end_time, 'YYYY-MM-DD"T"HH24:MI:SS.US'), 'distance_meters', a.distance_meters,
    'observed_at', a.observed_at)::json as body
from cycling_activities a
where a.user_id = @user_id and (a.start_time, a.source_id) > (@after_time::timestamp, @after_source_id::text)
order by a.start_time, a.source_id
limit @max_rows;

-- name: CopyCyclingAdjustments :many
select c.date, c.adjustment_id, json_build_object('date', c.date, 'adjustment_id', c.adjustment_id, 'delta_meters', c.delta_meters,
    'note', c.note, 'created_at', c.created_at)::json as body
from cycling_adjustments c
where c.user_id = @user_id and (c.date, c.adjustment_id) > (@after_date::date, @after_id::uuid)
order by c.date, c.adjustment_id
limit @max_rows;

-- name: CopyKnownBrowsers :many
select row_to_json(r)::json
from (select name, first_signed_in_at, signed_in_at from known_browsers where known_browsers.user_id = @user_id order by signed_in_at) r;

-- name: CopyAccountSessions :many
select row_to_json(r)::json from (select expires_at from account_sessions where account_sessions.user_id = @user_id order by expires_at) r;

-- name: CopySignIns :many
select row_to_json(r)::json
from (select sign_in_id, email, attempts, mail, used, expires_at from sign_ins where sign_ins.user_id = @user_id::uuid order by expires_at) r;

-- name: CopySignInEvents :many
-- By the keyed hash of the address. The detail of what an operator did names the operator.
select row_to_json(r)::json
from (
    select e.at, e.sign_in_id, e.event, case when e.event = 'lifted' then '' else e.detail end as detail, e.limited_by, e.until
    from sign_in_events e
    where e.key = any(@keys::bytea[])
    order by e.at, e.id
) r;

-- name: CopySignInLimits :many
select row_to_json(r)::json from (select asked_at, last_at, failed from sign_in_limits where key = any(@keys::bytea[]) order by last_at) r;

-- name: CopyAuthorizationRequests :many
select row_to_json(r)::json
from (
    select a.client_id, p.name as client_name, a.redirect_uri, scope_text(a.scopes) as scopes, a.consent_day, a.decided, a.decision,
        a.decided_version::text as connection_version, a.expires_at
    from authorization_requests a join clients p on p.client_id = a.client_id
    where a.user_id = @user_id::uuid
    order by a.expires_at
) r;

-- name: CopyNotices :many
select row_to_json(r)::json from (select kind, data, put_at, due_at, attempts from notices where recipient = @user_id order by put_at) r;

-- name: CopyWebhookEvents :many
-- With the attempts to deliver each, but without the answers of the partner's server. Those for the operator are left out: they tell nothing
-- that the connections and the audit log do not.
select e.event_id, json_build_object('event_id', e.event_id, 'client_id', e.client_id, 'client_name', p.name, 'type', e.type,
    'grant_id', e.grant_id, 'connection_version', e.connection_version::text, 'reason', e.reason, 'scopes', scope_text(e.datasets),
    'first_date', e.first_date, 'last_date', e.last_date, 'created_at', e.created_at, 'state', e.state, 'webhook_attempts', coalesce((
        select json_agg(json_build_object('at', a.at, 'duration_ms', a.duration_ms, 'status', a.status, 'fault', a.fault) order by a.attempt)
        from webhook_attempts a
        where a.user_id = @user_id and a.event_id = e.event_id
    ), '[]'))::json as body
from webhook_events e join clients p on p.client_id = e.client_id
where e.user_id = @user_id and e.event_id > @after
order by e.event_id
limit @max_rows;

-- name: CopyWebhookChanges :many
select row_to_json(r)::json
from (
    select c.client_id, scope_text(c.datasets) as scopes, c.first_date, c.last_date, c.changed_at
    from webhook_changes c
    where c.user_id = @user_id
    order by c.client_id, c.change_id
) r;

-- name: CopyClientErrors :many
select row_to_json(r)::json
from (
    select e.at, e.client_id, p.name as client_name, e.operation, e.status, e.code, e.reason, e.requests
    from client_errors e join clients p on p.client_id = e.client_id
    where e.grant_ids && @grant_ids::uuid[]
    order by e.at, e.error_id
) r;

-- name: CopyAuditLog :many
-- Actors other than the user, a partner's server and the service itself are operators, also those of what was replayed after a restore, which are in
-- its detail. Entries of connections store scopes as a number.
select l.at, l.id, json_build_object('at', l.at, 'actor', case when l.actor in ('user', 'client', 'system') then l.actor else 'operator' end,
    'action', l.action, 'client_id', l.client_id, 'connection_version', l.connection_version::text,
    'detail', case
        when jsonb_typeof(l.detail -> 'scopes') = 'number'
            then jsonb_set(l.detail, '{scopes}', to_jsonb(scope_text((l.detail ->> 'scopes')::smallint::scope_set)))
        when l.detail -> 'replayed' is not null and l.detail ->> 'by' not in ('user', 'client', 'system')
            then jsonb_set(l.detail, '{by}', '"operator"')
        else l.detail end)::json as body
from audit_log l
where l.subject = @user_id and (l.at, l.id) > (@after_time::timestamptz, @after_id::bigint)
order by l.at, l.id
limit @max_rows;
