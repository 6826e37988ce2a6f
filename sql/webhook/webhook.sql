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

-- name: CreateOperatorWebhook :execrows
-- The operator has no row in clients.
with created as (
    insert into webhook_endpoints (client_id, url, secret) values (operator_id(), @url, @secret)
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
    from (
        select cl.client_id from clients cl where cl.client_id = @client_id and cl.status <> 'offboarded'
        union all select operator_id()
    ) receiver
    where w.client_id = @client_id and receiver.client_id = w.client_id
    returning w.client_id
)
insert into audit_log (subject, actor, action, client_id, detail)
select moved.client_id, @actor::text, 'webhook.url_set', moved.client_id, jsonb_build_object('host', @host::text) from moved;

-- name: RotateWebhookSecret :execrows
-- With seen_until, the statement changes nothing if another previous secret signs by now.
with rotated as (
    update webhook_endpoints w
    set previous_secret = w.secret, previous_until = believed_time(@expected::pg_catalog.timestamptz) + @overlap::interval, secret = @secret
    where w.client_id = @client_id
        and (sqlc.narg(seen_until)::timestamptz is null or w.previous_until is null
            or w.previous_until <= believed_time(@expected::pg_catalog.timestamptz) or w.previous_until = sqlc.narg(seen_until))
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

-- name: FailEventsOfRemovedWebhook :execrows
-- Fails events that wait for a client without a webhook. They would be sent to the next one that is set before they are due.
update webhook_events set state = 'failed', queued = true, leased_until = now()
where state = 'pending' and (user_id, event_id) in (
    select e.user_id, e.event_id from webhook_events e
    where e.client_id = @client_id and e.state = 'pending' and not exists (select 1 from webhook_endpoints w where w.client_id = e.client_id)
    limit @max_rows
);

-- name: AuditSample :execrows
insert into audit_log (subject, actor, action, client_id, detail)
values (@client_id::uuid, @actor::text, 'webhook.tested', @client_id::uuid, jsonb_build_object('type', @type::text));

-- name: PauseWebhookEndpoint :execrows
with paused as (
    update webhook_endpoints w set paused_at = connect_now() where w.client_id = @client_id and w.paused_at is null returning w.client_id
)
insert into audit_log (subject, actor, action, client_id)
select paused.client_id, @actor::text, 'webhook.paused', paused.client_id from paused;

-- name: ResumeWebhookEndpoint :execrows
with resumed as (
    update webhook_endpoints w set paused_at = null where w.client_id = @client_id and w.paused_at is not null returning w.client_id
)
insert into audit_log (subject, actor, action, client_id)
select resumed.client_id, @actor::text, 'webhook.resumed', resumed.client_id from resumed;

-- name: FailPausedWebhookEvents :many
-- Fails events that have waited since before a time for a webhook that was paused before it, or for a client that is disabled, with or without
-- a webhook. leased_until tells when an event was last tried, replayed or failed. It reads the ready events of those clients alone, however many
-- wait for others: by then the time of each retry has come, and a server has made it ready.
update webhook_events set state = 'failed', queued = true, leased_until = now()
where state = 'pending' and (user_id, event_id) in (
    select e.user_id, e.event_id from webhook_events e
    where e.client_id = any (array(
            select w.client_id from webhook_endpoints w where w.paused_at < @before::timestamptz
            union all select held.client_id from clients held where held.status = 'disabled'
        ))
        and e.state = 'pending' and e.ready = any ('{0,1}') and e.created_at < @before::timestamptz
        and coalesce(e.leased_until, e.created_at) < @before::timestamptz
    limit @max_rows
)
returning client_id;

-- name: ListWebhookEvents :many
select * from webhook_events
where (sqlc.narg(client_id)::uuid is null or client_id = sqlc.narg(client_id))
    and (sqlc.narg(user_id)::uuid is null or user_id = sqlc.narg(user_id))
    and (sqlc.narg(grant_id)::uuid is null or grant_id = sqlc.narg(grant_id))
    and (sqlc.narg(state)::text is null or state = sqlc.narg(state))
    and (created_at, event_id) > (@after_time::timestamptz, @after_id::uuid)
order by created_at, event_id
limit @max_rows;

-- name: ListLatestWebhookEvents :many
select * from webhook_events
where client_id = @client_id
    and (sqlc.narg(user_id)::uuid is null or user_id = sqlc.narg(user_id))
    and (sqlc.narg(state)::text is null or state = sqlc.narg(state))
    and (created_at, event_id) < (@before_time::timestamptz, @before_id::uuid)
order by created_at desc, event_id desc
limit @max_rows;

-- name: CountFailedWebhookEvents :one
-- Those of a client, up to a bound.
select count(*) from (select 1 from webhook_events where client_id = @client_id and state = 'failed' limit @at_most) counted;

-- name: CountPendingWebhookEvents :one
-- The events of a client that are to be sent, up to a bound.
select count(*) from (select 1 from webhook_events where client_id = @client_id and state = 'pending' limit @at_most) counted;

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

-- name: LockWebhookEvent :one
-- Locks an event, and returns the facts that decide whether it can be replayed.
select (w.client_id is not null and cl.status is distinct from 'offboarded')::bool as has_endpoint, (w.stopped_at is not null)::bool as stopped
from webhook_events e
left join clients cl using (client_id)
left join webhook_endpoints w using (client_id)
where e.user_id = @user_id and e.event_id = @event_id
for update of e;

-- name: ReplayWebhookEvent :exec
with replayed as (
    update webhook_events
    set state = 'pending', attempts_before = attempts, queued = true, ready = 0, due_at = null, leased_until = now()
    where webhook_events.user_id = @user_id and webhook_events.event_id = @event_id
    returning event_id, client_id
)
insert into audit_log (subject, actor, action, client_id, detail)
select replayed.client_id, @actor::text, 'webhook.replayed', replayed.client_id,
    jsonb_build_object('event_id', replayed.event_id)
from replayed;

-- name: LookForWork :many
-- The events that are ready, the retries whose time has come and the changes whose window is over, in the order in which they became due,
-- new events before retries: kind is event, retry or change. It locks nothing and writes nothing, so that an idle server does neither.
select w.part::bigint as part, w.user_id::uuid as user_id, w.client_id::uuid as client_id, w.kind::text as kind,
    w.event_id::uuid as event_id, w.ready::smallint as ready, w.due_at::timestamptz as due_at, w.share::int as share
from webhook_work(@window_length::interval, @room::jsonb, @max_events::int, @max_changes::int) as w
order by ready, due_at;

-- name: ReadyWebhookEvents :exec
-- Marks retries, all of one part, as ready. They come after the new events of their clients.
with waiting as materialized (
    select e.event_id from webhook_events e
    where e.user_id = any (@user_ids::uuid[]) and e.event_id = any (@event_ids::uuid[]) and e.state = 'pending' and e.ready is null
    for update skip locked
)
update webhook_events e set ready = 1
where e.user_id = any (@user_ids::uuid[]) and e.event_id = any (array(select waiting.event_id from waiting));

-- name: ClaimWebhookEvents :many
-- Leases those of some events, all of one part, that are still free. A lease is measured in real time, even if a test shifts the clock,
-- because it bounds the work of a server. until 1.3.0: queued is there for programs of 1.0.0, and leased_until alone says
-- what is free. The array makes PostgreSQL find each event by its key, however many events the planner expects.
with free as materialized (
    select e.event_id from webhook_events e
    where e.user_id = any (@user_ids::uuid[]) and e.event_id = any (@event_ids::uuid[])
        and e.state = 'pending' and (not e.queued or e.leased_until <= now())
    for update skip locked
)
update webhook_events e set queued = true, leased_until = now() + @lease::interval
where e.user_id = any (@user_ids::uuid[]) and e.event_id = any (array(select free.event_id from free))
returning *;

-- name: ListWebhookTargets :many
-- The endpoints of clients' events. The URL is empty if a client has no webhook. rotating: the previous secret signs, too. The operator is
-- a client with the defaults.
select given.client_id::uuid as client_id, coalesce(cl.name, 'operator') as name, coalesce(cl.status, 'active') as status,
    coalesce(cl.webhook_parallel, 8) as webhook_parallel, coalesce(w.url, '') as url, coalesce(w.secret, '') as secret,
    w.previous_secret, w.previous_until, coalesce(w.previous_until > believed_time(@expected::pg_catalog.timestamptz), false)::bool as rotating,
    w.created_at, w.stopped_at, w.paused_at, believed_time(@expected::pg_catalog.timestamptz)::timestamptz as now
from (select unnest(@client_ids::uuid[]) as client_id) given
left join clients cl on cl.client_id = given.client_id
left join webhook_endpoints w on w.client_id = given.client_id
where cl.client_id is not null or given.client_id = operator_id();

-- name: RecordWebhookAttempt :one
-- No row: the event was deleted. held is false if the lease has ended: the event was leased or replayed since.
select r.held::boolean as held from record_webhook_attempt(@user_id::uuid, @event_id::uuid, sqlc.narg(lease)::timestamptz, @state::text, @due_at::timestamptz,
    @at::timestamptz, @duration_ms::int, sqlc.narg(status)::int, sqlc.narg(fault)::text, sqlc.narg(response)::bytea) as r(held)
where r.held is not null;

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
-- Fails an event whose endpoint was stopped or removed, or whose client was offboarded.
update webhook_events e set state = 'failed'
where e.user_id = @user_id and e.event_id = @event_id and e.state = 'pending'
    and not exists (
        select 1 from webhook_endpoints w
        join (
            select cl.client_id from clients cl where cl.status <> 'offboarded'
            union all select operator_id()
        ) receiver using (client_id)
        where w.client_id = e.client_id and w.stopped_at is null
    );

-- name: MergeWebhookChanges :one
-- Merges the changes of each connection of some users, all of one part, into one event if the oldest is due. Those that a read replica may
-- lack wait for the next event. Changes that the client may
-- not read any more are dropped, so nothing is merged by a clock that is not believed, and so are steps of days before the registration: a read
-- from there is refused. Servers that merge the same lock the rows in the same order: the later one finds them gone, and takes none that were
-- noted meanwhile. Grouped by all columns that it names: between two steps of the distribution Citus knows no primary key.
with oldest as materialized (
    select ch.user_id, ch.client_id from webhook_changes ch
    where ch.user_id = any (@user_ids::uuid[])
        and (ch.changed_at <= connect_now() - @window_length::interval or ch.changed_at > connect_now() + interval '1 minute')
        and is_believed(@expected::pg_catalog.timestamptz)
    order by ch.changed_at, ch.change_id
    for update
), taken as (
    delete from webhook_changes ch using (select distinct o.user_id, o.client_id from oldest o) due
    where ch.user_id = any (@user_ids::uuid[]) and ch.user_id = due.user_id and ch.client_id = due.client_id
        and (ch.changed_at <= connect_now() - @replica_lag::interval or ch.changed_at > connect_now() + interval '1 minute')
    returning ch.user_id, ch.client_id, ch.datasets, ch.first_date, ch.last_date
), written as (
    insert into webhook_events (user_id, client_id, type, grant_id, connection_version, datasets, first_date, last_date)
    select c.user_id, c.client_id, 'activity.updated', c.grant_id, c.version, bit_or(t.datasets & c.scopes),
        greatest(c.history_from, min(greatest(t.first_date, case when t.datasets & 1 <> 0 then u.registered_on end))), max(t.last_date)
    from taken t
    join connections c on c.user_id = t.user_id and c.client_id = t.client_id
    join users u on u.user_id = c.user_id
    join webhook_endpoints w on w.client_id = t.client_id
    where c.user_id = any (@user_ids::uuid[]) and u.user_id = any (@user_ids::uuid[]) and is_authorized(c.state, c.refresh_deadline)
        and w.stopped_at is null and t.datasets & c.scopes <> 0 and (t.datasets & 1 = 0 or t.last_date >= u.registered_on)
    group by c.user_id, c.client_id, c.grant_id, c.version, c.history_from
    having max(t.last_date) >= c.history_from
)
select count(distinct (t.user_id, t.client_id)) from taken t;

-- name: SweepWebhookEvents :one
-- Reads a part of the events, oldest first, after a place, and deletes those that settled before a time. It returns the last place of the part and how many it
-- has read: events that failed late, of which one receiver may have millions, are before those that can be deleted, and no statement passes by all of them.
-- leased_until tells when an event settled (null: a program of 1.0.0 settled it, until 1.3.0): attempts may go on for two weeks, and an event
-- may be replayed. One that was replayed since it was found stays: PostgreSQL checks the condition again.
with part as (
    select e.user_id, e.event_id, e.created_at, e.state <> 'pending' and coalesce(e.leased_until, e.created_at) < @before::timestamptz as settled
    from webhook_events e
    where (e.created_at, e.event_id) > (@after_time::timestamptz, @after_id::uuid) and e.created_at < @before::timestamptz
    order by e.created_at, e.event_id
    limit @max_rows
), swept as (
    delete from webhook_events e using part
    where part.settled and e.user_id = part.user_id and e.event_id = part.event_id
        and e.state <> 'pending' and coalesce(e.leased_until, e.created_at) < @before::timestamptz
)
select part.created_at, part.event_id, count(*) over () as read from part order by part.created_at desc, part.event_id desc limit 1;

-- name: TakeQueuedWebhookEvents :many
-- Empties webhook_queue, where programs of 1.0.0 (until 1.3.0) put the events that they send, but for those that they have leased.
delete from webhook_queue where event_id in (
    select q.event_id from webhook_queue q where q.leased_until is null or q.leased_until <= now() limit @max_rows for update skip locked
) returning user_id, event_id, next_attempt_at;

-- name: BringQueuedWebhookEvent :exec
update webhook_events set ready = null, due_at = @due_at::timestamptz, leased_until = now()
where user_id = @user_id and event_id = @event_id and state = 'pending' and leased_until is null;

-- name: ListReceivers :many
-- The names of the clients with a webhook.
select distinct coalesce(cl.name, 'operator')::text as name from webhook_endpoints e left join clients cl using (client_id);

-- name: CountPendingByClient :many
-- Without those of webhooks that are paused, stopped or removed and of clients that are not active, which nobody expects to be sent. It counts a
-- bounded number, the oldest first: without a bound it would not end in time while a receiver is down that has millions.
select coalesce(cl.name, 'operator')::text as name, count(*) as pending,
    extract(epoch from connect_now() - min(p.created_at))::float8 as oldest_seconds
from (
    select e.client_id, e.created_at from webhook_events e
    where e.state = 'pending' and (e.client_id in (
        select w.client_id from webhook_endpoints w left join clients c using (client_id)
        where w.paused_at is null and w.stopped_at is null and coalesce(c.status, 'active') = 'active'
    )) is true -- no join, which would read and sort all that wait
    order by e.created_at
    limit @at_most
) p
left join clients cl using (client_id)
group by 1;

-- name: Backlog :one
-- The events that are to be sent, by how long they have waited, without those that CountPendingByClient leaves out, and up to a bound, too. The
-- subqueries read the clock once instead of once a row.
select count(*) as waiting, count(*) filter (where w.due) as due,
    coalesce(extract(epoch from max(w.age)), 0)::float8 as oldest_seconds,
    count(*) filter (where w.age < interval '1 minute') as under_1m,
    count(*) filter (where w.age < interval '5 minutes') as under_5m,
    count(*) filter (where w.age < interval '1 hour') as under_1h,
    count(*) filter (where w.age < interval '6 hours') as under_6h,
    count(*) filter (where w.age < interval '1 day') as under_24h
from (
    select (select connect_now()) - e.created_at as age,
        (e.ready is not null or e.due_at <= (select connect_now())) and (e.leased_until is null or e.leased_until <= now()) as due
    from webhook_events e
    where e.state = 'pending' and (e.client_id in (
        select r.client_id from webhook_endpoints r left join clients cl using (client_id)
        where r.paused_at is null and r.stopped_at is null and coalesce(cl.status, 'active') = 'active'
    )) is true
    order by e.created_at
    limit @at_most
) w;

-- name: CountFailedOfDay :one
-- The events that failed within a day, by leased_until (null: a program of 1.0.0 failed it, until 1.3.0). An event fails at most two weeks after it
-- was written, unless it was replayed: its receiver may ask for a day before each attempt. The limit keeps the statement within its timeout, and most
-- of a receiver that is down are among those that were written last.
select count(*) from (
    select 1 from webhook_events e
    where e.state = 'failed' and e.created_at > (select connect_now()) - interval '14 days'
        and coalesce(e.leased_until, e.created_at) > now() - interval '1 day'
    order by e.created_at desc
    limit 10000
) f;

-- name: Release :exec
-- Ends leases, so that another server can lease the events at once, unless one has leased them in the meantime.
update webhook_events set leased_until = now()
where user_id = any (@user_ids::uuid[]) and event_id = any (@event_ids::uuid[]) and leased_until = any (@leases::timestamptz[]);
