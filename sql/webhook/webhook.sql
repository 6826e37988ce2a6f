-- Webhooks. Events are written by the statements that make the changes, in their own domains.

-- name: GetWebhookEndpoint :one
select w.*, connect_now()::timestamptz as now, coalesce(w.previous_until > connect_now(), false)::bool as rotating
from webhook_endpoints w
where w.client_id = @client_id;

-- name: CreateWebhookEndpoint :execrows
-- The client's row is held, so that no client is offboarded meanwhile. An endpoint that is there stays as it is.
with created as (
    insert into webhook_endpoints (client_id, url, secret)
    select cl.client_id, @url, @secret from clients cl
    where cl.client_id = @client_id and cl.status <> 'offboarded' for share
    on conflict (client_id) do nothing
    returning client_id
)
insert into audit_events (actor, action, client_id, detail)
select 'operator', 'webhook.created', created.client_id, jsonb_build_object('host', @host::text) from created;

-- name: ClientExists :one
select exists (select from clients where client_id = @client_id);

-- name: MoveWebhookEndpoint :execrows
with moved as (
    update webhook_endpoints w set url = @url, stopped_at = null
    from clients cl
    where w.client_id = @client_id and cl.client_id = w.client_id and cl.status <> 'offboarded'
    returning w.client_id
)
insert into audit_events (actor, action, client_id, detail)
select 'operator', 'webhook.url_set', moved.client_id, jsonb_build_object('host', @host::text) from moved;

-- name: RotateWebhookSecret :execrows
with rotated as (
    update webhook_endpoints w
    set previous_secret = w.secret, previous_until = connect_now() + @overlap::interval, secret = @secret
    where w.client_id = @client_id
    returning w.client_id
)
insert into audit_events (actor, action, client_id)
select 'operator', 'webhook.secret_rotated', rotated.client_id from rotated;

-- name: RemoveWebhookEndpoint :execrows
with removed as (
    delete from webhook_endpoints w where w.client_id = @client_id returning w.client_id
)
insert into audit_events (actor, action, client_id)
select 'operator', 'webhook.removed', removed.client_id from removed;

-- name: ListWebhookEvents :many
select * from webhook_events
where (sqlc.narg(client_id)::uuid is null or client_id = sqlc.narg(client_id))
    and (sqlc.narg(state)::text is null or state = sqlc.narg(state))
    and (created_at, event_id) > (@after_time::timestamptz, @after_id::uuid)
order by created_at, event_id
limit @max_rows;

-- name: GetWebhookEvent :one
select * from webhook_events where event_id = @event_id;

-- name: ListWebhookAttempts :many
select * from webhook_attempts where event_id = @event_id order by attempt;

-- name: LockWebhookEvent :one
-- What decides whether an event can be replayed.
select (w.client_id is not null)::bool as has_endpoint, (w.stopped_at is not null)::bool as stopped
from webhook_events e
left join webhook_endpoints w using (client_id)
where e.event_id = @event_id
for update of e;

-- name: ReplayWebhookEvent :exec
with replayed as (
    update webhook_events set state = 'pending', attempts_before = attempts, next_attempt_at = connect_now()
    where event_id = @event_id
    returning event_id, client_id
)
insert into audit_events (actor, action, client_id, detail)
select 'operator', 'webhook.replayed', replayed.client_id, jsonb_build_object('event_id', replayed.event_id)
from replayed;

-- name: ClaimWebhookEvents :many
-- Leases events that are due. A client gets as many as its share of this server
-- leaves: in_flight holds how many of its events are being sent. A lease is of real time, also where a test shifts the
-- clock: it bounds what a server does. The array has each event found by its key, however many the planner expects.
with due as (
    select e.event_id
    from clients cl
    cross join lateral (
        select o.event_id, o.next_attempt_at from webhook_events o
        where o.client_id = cl.client_id and o.state = 'pending' and o.next_attempt_at <= connect_now()
            and (o.leased_until is null or o.leased_until <= now())
        order by o.next_attempt_at
        limit sqlc.arg(client_share)::int - coalesce((sqlc.arg(in_flight)::jsonb ->> cl.client_id::text)::int, 0)
        for update skip locked
    ) e
    order by e.next_attempt_at
    limit @max_events
)
update webhook_events set leased_until = now() + @lease::interval
where event_id = any (array(select due.event_id from due))
returning *;

-- name: RecordWebhookAttempt :one
-- An attempt and what becomes of its event, in one. Where another attempt was recorded since the event was leased, the
-- lease had ended: then only a delivery still changes what becomes of the event. The URL that is gone is stopped unless it
-- was replaced meanwhile.
with event as (
    update webhook_events e
    set attempts = e.attempts + 1,
        state = case
            when @state::text = 'delivered' then 'delivered'
            when e.state <> 'pending' or e.attempts <> @attempts then e.state
            else @state::text end,
        next_attempt_at = case
            when @state::text = 'delivered' then null
            when e.state <> 'pending' or e.attempts <> @attempts then e.next_attempt_at
            when @state::text = 'pending' then connect_now() + @delay::interval end,
        leased_until = case when e.attempts <> @attempts then e.leased_until end
    where e.event_id = @event_id
    returning e.event_id, e.client_id, e.attempts
), attempted as (
    insert into webhook_attempts (event_id, attempt, at, duration_ms, status, fault, response)
    select ev.event_id, ev.attempts, @at, @duration_ms, sqlc.narg(status), sqlc.narg(fault), @response from event ev
), gone as (
    update webhook_endpoints w set stopped_at = connect_now()
    from event ev
    where @gone::bool and w.client_id = ev.client_id and w.url = @url and w.stopped_at is null
    returning w.client_id
), noted as (
    insert into audit_events (actor, action, client_id, detail)
    select 'system', 'webhook.stopped', gone.client_id, jsonb_build_object('event_id', @event_id::uuid) from gone
)
select event.attempts, (gone.client_id is not null)::bool as stopped, cl.name as client_name
from event
join clients cl using (client_id)
left join gone on true;

-- name: FailWebhookEvent :one
-- An event whose endpoint was stopped or removed is not sent.
update webhook_events e set state = 'failed', next_attempt_at = null, leased_until = null
from clients cl
where e.event_id = @event_id and e.state = 'pending' and cl.client_id = e.client_id
    and not exists (select from webhook_endpoints w where w.client_id = e.client_id and w.stopped_at is null)
returning cl.name;

-- name: MergeWebhookChanges :one
-- All changes of the connections that waited longest become one event each, unless it may not be told any more. One
-- server at a time; the others find nothing.
with mine as materialized (
    select pg_try_advisory_xact_lock(hashtextextended('connect-svc.webhook_changes', 0)) as locked
), oldest as materialized (
    select ch.user_id, ch.client_id from webhook_changes ch
    where ch.changed_at <= connect_now() - @window_length::interval and (select locked from mine)
    order by ch.changed_at
    limit 4 * @max_connections::int
), due as materialized (
    select distinct user_id, client_id from oldest limit @max_connections::int
), taken as (
    delete from webhook_changes ch using due
    where ch.user_id = due.user_id and ch.client_id = due.client_id
    returning ch.user_id, ch.client_id, ch.datasets, ch.first_date, ch.last_date
), merged as (
    select t.user_id, t.client_id, bit_or(t.datasets) as datasets, min(t.first_date) as first_date,
        max(t.last_date) as last_date
    from taken t
    group by t.user_id, t.client_id
), written as (
    insert into webhook_events (client_id, type, grant_id, connection_version, datasets, first_date, last_date)
    select c.client_id, 'activity.updated', c.grant_id, c.version, m.datasets & c.scopes,
        greatest(m.first_date, c.history_from), m.last_date
    from merged m
    join connections c on c.user_id = m.user_id and c.client_id = m.client_id
    join webhook_endpoints w on w.client_id = m.client_id
    where c.state = 'authorized' and c.refresh_deadline > connect_now() and w.stopped_at is null
        and m.datasets & c.scopes <> 0 and m.last_date >= c.history_from
)
select count(*) from merged;

-- name: SweepWebhookEvents :execrows
delete from webhook_events
where event_id in (
    select e.event_id from webhook_events e
    where e.created_at < connect_now() - @age::interval and e.state <> 'pending'
    order by e.created_at
    limit @max_rows
);

-- name: CountPendingWebhookEvents :many
select cl.name, count(*) as pending, extract(epoch from connect_now() - min(e.created_at))::float8 as oldest_seconds
from webhook_events e
join clients cl using (client_id)
where e.state = 'pending'
group by cl.name
order by cl.name;
