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

-- name: ListWebhookTries :many
select * from webhook_tries where event_id = @event_id order by try;

-- name: LockWebhookEvent :one
-- What decides whether an event can be replayed.
select e.client_id, e.state, (w.client_id is not null)::bool as has_endpoint, (w.stopped_at is not null)::bool as stopped
from webhook_events e
left join webhook_endpoints w using (client_id)
where e.event_id = @event_id
for update of e;

-- name: ReplayWebhookEvent :exec
with replayed as (
    update webhook_events set state = 'pending', tries_before = tries, next_try_at = null
    where event_id = @event_id
    returning event_id, client_id
)
insert into audit_events (actor, action, client_id, detail)
select 'operator', 'webhook.replayed', replayed.client_id, jsonb_build_object('event_id', replayed.event_id)
from replayed;

-- name: GetWebhookDelivery :one
-- Everything that a try needs.
select sqlc.embed(e), cl.name as client_name, connect_now()::timestamptz as now,
    coalesce(w.url, '')::text as url, coalesce(w.secret, '')::text as secret,
    (case when w.previous_until > connect_now() then w.previous_secret else '' end)::text as previous_secret,
    (w.client_id is null or w.stopped_at is not null)::bool as stopped,
    greatest(extract(epoch from e.next_try_at - connect_now()), 0)::float8 as wait_seconds
from webhook_events e
join clients cl using (client_id)
left join webhook_endpoints w using (client_id)
where e.event_id = @event_id;

-- name: RecordWebhookTry :one
-- A try and what becomes of its event, in one. The event goes on by the try of the job that holds it: where another try
-- was recorded meanwhile, only a delivery still changes something. The URL that is gone is stopped unless it was
-- replaced meanwhile.
with event as (
    update webhook_events e
    set tries = e.tries + 1,
        state = case
            when @state::text = 'delivered' then 'delivered'
            when e.state <> 'pending' or e.tries <> @tries then e.state
            else @state::text end,
        next_try_at = case
            when @state::text = 'delivered' then null
            when e.state <> 'pending' or e.tries <> @tries then e.next_try_at
            when @state::text = 'pending' then connect_now() + @delay::interval end
    where e.event_id = @event_id
    returning e.event_id, e.client_id, e.tries, e.state
), tried as (
    insert into webhook_tries (event_id, try, at, duration_ms, status, fault, answer)
    select ev.event_id, ev.tries, @at, @duration_ms, sqlc.narg(status), sqlc.narg(fault), @answer from event ev
), gone as (
    update webhook_endpoints w set stopped_at = connect_now()
    from event ev
    where @gone::bool and w.client_id = ev.client_id and w.url = @url and w.stopped_at is null
    returning w.client_id
), noted as (
    insert into audit_events (actor, action, client_id, detail)
    select 'system', 'webhook.stopped', gone.client_id, jsonb_build_object('event_id', @event_id::uuid) from gone
)
select event.state, event.tries, (gone.client_id is not null)::bool as stopped
from event
left join gone on true;

-- name: FailWebhookEvent :execrows
-- An event whose endpoint was stopped or removed is not tried.
update webhook_events e set state = 'failed', next_try_at = null
where e.event_id = @event_id and e.state = 'pending'
    and not exists (select from webhook_endpoints w where w.client_id = e.client_id and w.stopped_at is null);

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
    returning event_id
)
select (select count(*) from merged) as connections, (select count(*) from written) as events;

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
