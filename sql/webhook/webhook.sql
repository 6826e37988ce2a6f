-- Endpoints, events and their delivery. The statements that end connections, in sql/oauth, insert their events.

-- name: CreateWebhookEndpoint :execrows
-- Locks the client's row, so that the client is not offboarded at the same time. An existing endpoint is unchanged.
with created as (
    insert into webhook_endpoints (client_id, url, secret)
    select cl.client_id, @url, @secret from clients cl
    where cl.client_id = @client_id and cl.status <> 'offboarded' for share
    on conflict (client_id) do nothing
    returning client_id
)
insert into audit_log (subject, actor, action, client_id, detail)
select created.client_id, @actor::text, 'webhook.created', created.client_id, jsonb_build_object('host', @host::text) from created;

-- name: ClientExists :one
select exists (select 1 from clients where client_id = @client_id);

-- name: MoveWebhookEndpoint :execrows
with moved as (
    update webhook_endpoints w set url = @url, stopped_at = null
    from clients cl
    where w.client_id = @client_id and cl.client_id = w.client_id and cl.status <> 'offboarded'
    returning w.client_id
)
insert into audit_log (subject, actor, action, client_id, detail)
select moved.client_id, @actor::text, 'webhook.url_set', moved.client_id, jsonb_build_object('host', @host::text) from moved;

-- name: RotateWebhookSecret :execrows
-- With seen_until, the statement changes nothing if another previous secret signs by now.
with rotated as (
    update webhook_endpoints w
    set previous_secret = w.secret, previous_until = believed_time(sqlc.narg(expected)::timestamptz) + @overlap::interval, secret = @secret
    where w.client_id = @client_id
        and (sqlc.narg(seen_until)::timestamptz is null or w.previous_until is null
            or w.previous_until <= believed_time(sqlc.narg(expected)::timestamptz) or w.previous_until = sqlc.narg(seen_until))
    returning w.client_id
)
insert into audit_log (subject, actor, action, client_id)
select rotated.client_id, @actor::text, 'webhook.secret_rotated', rotated.client_id from rotated;

-- name: RemoveWebhookEndpoint :execrows
with removed as (
    delete from webhook_endpoints w where w.client_id = @client_id returning w.client_id
)
insert into audit_log (subject, actor, action, client_id)
select removed.client_id, @actor::text, 'webhook.removed', removed.client_id from removed;

-- name: ListWebhookEvents :many
select * from webhook_events
where (sqlc.narg(client_id)::uuid is null or client_id = sqlc.narg(client_id))
    and (sqlc.narg(state)::text is null or state = sqlc.narg(state))
    and (created_at, event_id) > (@after_time::timestamptz, @after_id::uuid)
order by created_at, event_id
limit @max_rows;

-- name: ListLatestWebhookEvents :many
select * from webhook_events
where client_id = @client_id
    and (sqlc.narg(state)::text is null or state = sqlc.narg(state))
    and (created_at, event_id) < (@before_time::timestamptz, @before_id::uuid)
order by created_at desc, event_id desc
limit @max_rows;

-- name: CountFailedWebhookEvents :one
-- Those of a client, up to a bound.
select count(*) from (select 1 from webhook_events where client_id = @client_id and state = 'failed' limit @at_most) counted;

-- name: CountQueuedWebhookEvents :one
-- The events of a client that are to be sent, up to a bound.
select count(*) from (select 1 from webhook_queue where client_id = @client_id limit @at_most) counted;

-- name: ListEventsOfConnection :many
-- Newest first.
select * from webhook_events
where user_id = @user_id and client_id = @client_id and (created_at, event_id) < (@before_time::timestamptz, @before_id::uuid)
order by created_at desc, event_id desc
limit @max_rows;

-- name: ListWebhookAttempts :many
-- The last attempts of each event, with or without the responses.
select a.event_id, a.attempt, a.at, a.duration_ms, a.status, a.fault, a.response::bytea as response
from webhook_events e
cross join lateral (
    select l.event_id, l.attempt, l.at, l.duration_ms, l.status, l.fault,
        case when @responses::boolean then l.response end as response
    from webhook_attempts l
    where l.user_id = @user_id and l.event_id = e.event_id
    order by l.attempt desc
    limit @of_each
) a
where e.user_id = @user_id and e.event_id = any (@event_ids::uuid[])
order by a.event_id, a.attempt;

-- name: GetWebhookEvent :one
select * from webhook_events where event_id = @event_id;

-- name: ListQueued :many
-- The due times of events that are in the queue.
select event_id, next_attempt_at from webhook_queue where event_id = any (@event_ids::uuid[]);

-- name: LockWebhookEvent :one
-- Locks an event, and returns the facts that decide whether it can be replayed.
select (w.client_id is not null)::bool as has_endpoint, (w.stopped_at is not null)::bool as stopped
from webhook_events e
left join webhook_endpoints w on w.client_id = e.client_id
where e.user_id = @user_id and e.event_id = @event_id
for update of e;

-- name: ReplayWebhookEvent :exec
with replayed as (
    update webhook_events set state = 'pending', attempts_before = attempts, queued = true
    where webhook_events.user_id = @user_id and webhook_events.event_id = @event_id
    returning event_id, client_id
)
insert into audit_log (subject, actor, action, client_id, detail)
select replayed.client_id, @actor::text, 'webhook.replayed', replayed.client_id,
    jsonb_build_object('event_id', replayed.event_id)
from replayed;

-- name: QueueReplay :exec
insert into webhook_queue (event_id, user_id, client_id, created_at, next_attempt_at)
values (@event_id, @user_id, @client_id, @created_at, believed_time(sqlc.narg(expected)::timestamptz))
on conflict (event_id) do update set next_attempt_at = excluded.next_attempt_at;

-- name: LookForWork :one
-- Whether there are new events, events that are due, and changes whose window is over. It locks nothing and writes nothing, so that
-- an idle server does neither.
with new_events as materialized (
    select 1 as found from webhook_events where not queued limit 1
), due as materialized (
    select 1 as found
    from clients cl
    cross join lateral (
        select 1 from webhook_queue o
        where o.client_id = cl.client_id and o.next_attempt_at <= connect_now()
            and (o.leased_until is null or o.leased_until <= now())
        limit 1
    ) e
    limit 1
), changes as materialized (
    select 1 as found from webhook_changes
    where changed_at <= connect_now() - @window_length::interval or changed_at > connect_now() + interval '1 minute'
    limit 1
)
select exists (select 1 from new_events) as new_events, exists (select 1 from due) as due, exists (select 1 from changes) as changes;

-- name: QueueWebhookEvents :execrows
-- Puts new events into the queue, oldest first. Each event is marked by one statement only, even if several run at the same time.
with fresh as (
    update webhook_events e set queued = true
    where not e.queued and (e.user_id, e.event_id) in (
        select o.user_id, o.event_id from webhook_events o where not o.queued order by o.created_at limit @max_events
    )
    returning e.event_id, e.user_id, e.client_id, e.created_at
)
insert into webhook_queue (event_id, user_id, client_id, created_at, next_attempt_at)
select event_id, user_id, client_id, created_at, least(created_at, connect_now()) from fresh;

-- name: ClaimWebhookEvents :many
-- Leases events that are due. room bounds the events of each client; of a client that is not in it, as many are leased as are sent
-- at the same time. A lease is measured in real time, even if a test shifts the clock, because it bounds the work of a server.
-- The array makes PostgreSQL find each event by its key, however many events the planner expects.
with due as (
    select e.event_id
    from clients cl
    cross join lateral (
        select o.event_id, o.next_attempt_at from webhook_queue o
        where o.client_id = cl.client_id and o.next_attempt_at <= connect_now()
            and (o.leased_until is null or o.leased_until <= now())
        order by o.next_attempt_at
        limit coalesce((sqlc.arg(room)::jsonb ->> cl.client_id::text)::int, cl.webhook_parallel)
        for update skip locked
    ) e
    order by e.next_attempt_at
    limit @max_events
)
update webhook_queue set leased_until = now() + @lease::interval
where event_id = any (array(select due.event_id from due))
returning event_id, user_id, client_id;

-- name: ListClaimed :many
-- The claimed events, without those that were deleted with their user's account.
select * from webhook_events where user_id = any (@user_ids::uuid[]) and event_id = any (@event_ids::uuid[]);

-- name: ListWebhookTargets :many
-- The endpoints of clients' events. The URL is empty if a client has no webhook. rotating: the previous secret signs, too.
select cl.client_id, cl.name, cl.webhook_parallel, coalesce(w.url, '') as url, coalesce(w.secret, '') as secret,
    w.previous_secret, w.previous_until, coalesce(w.previous_until > believed_time(sqlc.narg(expected)::timestamptz), false)::bool as rotating,
    w.created_at, w.stopped_at, believed_time(sqlc.narg(expected)::timestamptz)::timestamptz as now
from clients cl
left join webhook_endpoints w on w.client_id = cl.client_id
where cl.client_id = any (@client_ids::uuid[]);

-- name: RecordWebhookAttempt :one
-- Records an attempt and the new state of its event. If another attempt was recorded since the event was leased, the lease had
-- ended, and only a delivery still changes the state.
with event as (
    update webhook_events e
    set attempts = e.attempts + 1,
        state = case
            when @state::text = 'delivered' then 'delivered'
            when e.state <> 'pending' or e.attempts <> @attempts::int then e.state
            else @state::text end
    where e.user_id = @user_id and e.event_id = @event_id
    returning e.user_id, e.event_id, e.attempts, e.state, (e.attempts = sqlc.arg(attempts)::int + 1)::bool as held
), attempted as (
    insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault, response)
    select ev.user_id, ev.event_id, ev.attempts, @at::timestamptz, @duration_ms::int, sqlc.narg(status)::int,
        sqlc.narg(fault)::text, sqlc.narg(response)::bytea
    from event ev
), settled as (
    delete from webhook_queue where event_id in (select event.event_id from event where event.state <> 'pending')
), delayed as (
    update webhook_queue q set next_attempt_at = issue_time(sqlc.narg(expected)::timestamptz) + @delay::interval, leased_until = null
    from event where q.event_id = @event_id and event.state = 'pending' and event.held
)
select event.held from event;

-- name: StopWebhookEndpoint :execrows
-- Stops the endpoint unless its URL was replaced.
with gone as (
    update webhook_endpoints w set stopped_at = connect_now()
    where w.client_id = @client_id and w.url = @url and w.stopped_at is null
    returning w.client_id
)
insert into audit_log (subject, actor, action, client_id, detail)
select gone.client_id, 'system', 'webhook.stopped', gone.client_id, jsonb_build_object('event_id', @event_id::uuid) from gone;

-- name: FailWebhookEvent :execrows
-- Fails an event whose endpoint was stopped or removed.
with failed as (
    update webhook_events e set state = 'failed'
    where e.user_id = @user_id and e.event_id = @event_id and e.state = 'pending'
        and not exists (select 1 from webhook_endpoints w where w.client_id = e.client_id and w.stopped_at is null)
    returning e.event_id
)
delete from webhook_queue where event_id in (select failed.event_id from failed);

-- name: Unqueue :exec
delete from webhook_queue where event_id = any (@event_ids::uuid[]);

-- name: MergeWebhookChanges :one
-- Merges the changes of each connection into one event, starting with those that waited longest. Changes that the client may not
-- read any more are dropped, so nothing is merged by a clock that is not believed. A change of the future is due: the clock was ahead when
-- it was noted.
with oldest as materialized (
    select ch.user_id, ch.client_id from webhook_changes ch
    where (ch.changed_at <= connect_now() - @window_length::interval or ch.changed_at > connect_now() + interval '1 minute')
        and is_believed(sqlc.narg(expected)::timestamptz)
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
    insert into webhook_events (user_id, client_id, type, grant_id, connection_version, datasets, first_date, last_date)
    select c.user_id, c.client_id, 'activity.updated', c.grant_id, c.version, m.datasets & c.scopes,
        greatest(m.first_date, c.history_from), m.last_date
    from merged m
    join connections c on c.user_id = m.user_id and c.client_id = m.client_id
    join webhook_endpoints w on w.client_id = m.client_id
    where is_authorized(c.state, c.refresh_deadline) and w.stopped_at is null
        and m.datasets & c.scopes <> 0 and m.last_date >= c.history_from
)
select count(*) from merged;

-- name: SweepWebhookEvents :execrows
delete from webhook_events
where (user_id, event_id) in (
    select e.user_id, e.event_id from webhook_events e
    where e.created_at < @before::timestamptz and e.state <> 'pending'
    order by e.created_at
    limit @max_rows
);

-- name: CountQueued :many
select cl.name, count(*) as pending, extract(epoch from connect_now() - min(q.created_at))::float8 as oldest_seconds
from webhook_queue q
join clients cl using (client_id)
group by cl.name;

-- name: CountUnqueued :many
select cl.name, count(*) as pending, extract(epoch from connect_now() - min(e.created_at))::float8 as oldest_seconds
from webhook_events e
join clients cl using (client_id)
where not e.queued
group by cl.name;

-- name: QueueBacklog :one
-- The events in the queue, by how long they have waited. The subqueries read the clock once instead of once a row.
select count(*) as waiting, count(*) filter (where w.due) as due,
    coalesce(extract(epoch from max(w.age)), 0)::float8 as oldest_seconds,
    count(*) filter (where w.age < interval '1 minute') as under_1m,
    count(*) filter (where w.age < interval '5 minutes') as under_5m,
    count(*) filter (where w.age < interval '1 hour') as under_1h,
    count(*) filter (where w.age < interval '6 hours') as under_6h,
    count(*) filter (where w.age < interval '1 day') as under_24h
from (
    select (select connect_now()) - created_at as age,
        next_attempt_at <= (select connect_now()) and (leased_until is null or leased_until <= now()) as due
    from webhook_queue
) w;

-- name: UnqueuedBacklog :one
-- The same for the events that are not in the queue yet.
select count(*) as waiting, count(*) as due, coalesce(extract(epoch from max(w.age)), 0)::float8 as oldest_seconds,
    count(*) filter (where w.age < interval '1 minute') as under_1m,
    count(*) filter (where w.age < interval '5 minutes') as under_5m,
    count(*) filter (where w.age < interval '1 hour') as under_1h,
    count(*) filter (where w.age < interval '6 hours') as under_6h,
    count(*) filter (where w.age < interval '1 day') as under_24h
from (select (select connect_now()) - created_at as age from webhook_events where not queued) w;

-- name: CountFailedOfDay :one
-- The events that failed within a day. An event fails at most four days after it was written, unless it was replayed. The limit
-- keeps the statement within its timeout.
select count(*) from (
    select 1 from webhook_events e
    left join webhook_attempts a on a.user_id = e.user_id and a.event_id = e.event_id and a.attempt = e.attempts
    where e.state = 'failed' and e.created_at > (select connect_now()) - interval '4 days'
        and coalesce(a.at, e.created_at) > (select connect_now()) - interval '1 day'
    limit 10000
) f;

-- name: Release :exec
-- Ends leases, so that another server can lease the events at once.
update webhook_queue set leased_until = null where event_id = any (@event_ids::uuid[]);
