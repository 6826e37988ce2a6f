-- The events of each day. Servers add what they see, and a sweep replaces what it reads from other tables. The row of a day with the nil
-- UUID has the sums over all clients.

-- name: AddToDays :exec
-- rows: at most one for each client and day. They are locked in order, so that servers that write at the same time do not deadlock.
insert into usage_days as d (
    client_id, day, refreshed, active_users, codes_sent, codes_tried, webhooks_delivered, webhooks_failed, lapsed
)
select
    r.client_id, r.day, r.refreshed, r.active_users, r.codes_sent, r.codes_tried, r.webhooks_delivered, r.webhooks_failed, r.lapsed
from jsonb_populate_recordset(null::usage_days, @rows::jsonb) as r
order by r.day, r.client_id
on conflict (client_id, day) do update
set refreshed = d.refreshed + excluded.refreshed,
    active_users = d.active_users + excluded.active_users,
    codes_sent = d.codes_sent + excluded.codes_sent,
    codes_tried = d.codes_tried + excluded.codes_tried,
    webhooks_delivered = d.webhooks_delivered + excluded.webhooks_delivered,
    webhooks_failed = d.webhooks_failed + excluded.webhooks_failed,
    lapsed = d.lapsed + excluded.lapsed;

-- name: PutDays :exec
-- Like AddToDays, but replaces the columns that the sweep reads from other tables.
insert into usage_days as d (
    client_id, day, lapsed, requests, rate_limited, refused, failed, durations, busiest_minute, active_clients, authorized, revoked,
    replayed, revoked_by_operator, disconnected_by_user, disconnected_by_client, disconnected_by_operator, disconnected_with_account,
    disconnected_with_client, now_authorized, now_lapsed, now_revoked, now_disconnected
)
select
    r.client_id, r.day, r.lapsed, r.requests, r.rate_limited, r.refused, r.failed, r.durations, r.busiest_minute, r.active_clients,
    r.authorized, r.revoked, r.replayed, r.revoked_by_operator, r.disconnected_by_user, r.disconnected_by_client,
    r.disconnected_by_operator, r.disconnected_with_account, r.disconnected_with_client, r.now_authorized, r.now_lapsed, r.now_revoked,
    r.now_disconnected
from jsonb_populate_recordset(null::usage_days, @rows::jsonb) as r
order by r.day, r.client_id
on conflict (client_id, day) do update
set lapsed = d.lapsed + excluded.lapsed,
    requests = excluded.requests, rate_limited = excluded.rate_limited, refused = excluded.refused, failed = excluded.failed, durations =
    excluded.durations, busiest_minute = greatest(d.busiest_minute, excluded.busiest_minute), active_clients = excluded.active_clients, authorized =
    excluded.authorized, revoked = excluded.revoked, replayed = excluded.replayed, revoked_by_operator = excluded.revoked_by_operator,
    disconnected_by_user = excluded.disconnected_by_user, disconnected_by_client = excluded.disconnected_by_client,
    disconnected_by_operator = excluded.disconnected_by_operator, disconnected_with_account = excluded.disconnected_with_account,
    disconnected_with_client = excluded.disconnected_with_client, now_authorized = excluded.now_authorized, now_lapsed =
    excluded.now_lapsed, now_revoked = excluded.now_revoked, now_disconnected = excluded.now_disconnected
where excluded.lapsed > 0 or (
    d.requests, d.rate_limited, d.refused, d.failed, d.durations, d.busiest_minute, d.active_clients, d.authorized, d.revoked, d.replayed,
    d.revoked_by_operator, d.disconnected_by_user, d.disconnected_by_client, d.disconnected_by_operator, d.disconnected_with_account,
    d.disconnected_with_client, d.now_authorized, d.now_lapsed, d.now_revoked, d.now_disconnected
) is distinct from (
    excluded.requests, excluded.rate_limited, excluded.refused, excluded.failed, excluded.durations, excluded.busiest_minute,
    excluded.active_clients, excluded.authorized, excluded.revoked, excluded.replayed, excluded.revoked_by_operator,
    excluded.disconnected_by_user, excluded.disconnected_by_client, excluded.disconnected_by_operator, excluded.disconnected_with_account,
    excluded.disconnected_with_client, excluded.now_authorized, excluded.now_lapsed, excluded.now_revoked, excluded.now_disconnected);

-- name: LockFolds :one
-- It returns nothing while another server has the turn.
select next_day, counted_until, connect_now()::timestamptz as now from usage_folds for update skip locked;

-- name: SetFolds :exec
update usage_folds set next_day = @next_day::date, counted_until = @counted_until;

-- name: FirstDay :one
-- The first day that has anything.
select (least((select min(hour) from usage_hours), (select min(at) from audit_log), connect_now()) at time zone 'UTC')::date as day;

-- name: SumRequests :many
-- The requests by client. One sum for each bucket of internal/admin/usage is much faster than a row for each.
select client_id, sum(requests)::bigint as requests,
    coalesce(sum(requests) filter (where status = 429), 0)::bigint as rate_limited,
    coalesce(sum(requests) filter (where status between 400 and 499 and status <> 429), 0)::bigint as refused,
    coalesce(sum(requests) filter (where status >= 500), 0)::bigint as failed,
    array[
        coalesce(sum(durations[1]), 0), coalesce(sum(durations[2]), 0), coalesce(sum(durations[3]), 0),
        coalesce(sum(durations[4]), 0), coalesce(sum(durations[5]), 0), coalesce(sum(durations[6]), 0),
        coalesce(sum(durations[7]), 0), coalesce(sum(durations[8]), 0), coalesce(sum(durations[9]), 0),
        coalesce(sum(durations[10]), 0), coalesce(sum(durations[11]), 0), coalesce(sum(durations[12]), 0),
        coalesce(sum(durations[13]), 0), coalesce(sum(durations[14]), 0)
    ]::bigint[] as durations
from usage_hours
where hour >= @since and hour < @until
group by client_id;

-- name: BusiestMinutes :many
-- The caller reads the minutes since the last fold.
select client_id, max(charged)::bigint as charged
from usage_minutes
where minute >= @since and minute < @until
group by client_id;

-- name: CountActs :many
-- The acts on connections by client, act, who did it, and why.
select client_id::uuid as client_id, action, actor, coalesce(detail ->> 'reason', '')::text as reason, count(*) as acts
from audit_log
where action in ('connection.authorized', 'connection.revoked', 'connection.disconnected')
    and at >= @since and at < @until and client_id is not null
group by 1, 2, 3, 4;

-- name: CountStates :many
-- The connections by state, and those that have lapsed since the last count: today or before.
select client_id,
    count(*) filter (where state = 'authorized') as authorized,
    count(*) filter (where state = 'lapsed') as lapsed,
    count(*) filter (where state = 'revoked') as revoked,
    count(*) filter (where state = 'disconnected') as disconnected,
    count(*) filter (where state = 'lapsed' and state_before <> 'lapsed' and state_at_midnight <> 'lapsed') as lapsed_today,
    count(*) filter (where state = 'lapsed' and state_before <> 'lapsed' and state_at_midnight = 'lapsed') as lapsed_earlier
from (
    select client_id, connection_state(state, refresh_deadline, @until) as state, connection_state(state, refresh_deadline, @since) as state_before,
        connection_state(state, refresh_deadline, @today) as state_at_midnight
    from connections
    where version > 0
) c
group by client_id;

-- name: ListLapses :many
-- The connections that have lapsed before today and since the last count.
select client_id, (refresh_deadline at time zone 'UTC')::date as day, count(*) as connections
from connections
where version > 0 and connection_state(state, refresh_deadline, @today) = 'lapsed' and connection_state(state, refresh_deadline, @since) <> 'lapsed'
group by 1, 2;

-- name: ListCounted :many
-- The clients that had connections when they were last counted on that day.
select client_id from usage_days where day = @day and now_authorized + now_lapsed + now_revoked + now_disconnected > 0;

-- name: SweepDays :execrows
delete from usage_days where day < @before::date;

-- name: ReadDays :many
-- The days of one client, or of all together.
select * from usage_days where client_id = @client_id and day >= @since::date order by day;

-- name: DaysOfClients :many
select * from usage_days where client_id = any (@client_ids::uuid[]) and day >= @since::date order by client_id, day;

-- name: CountedUntil :one
select counted_until from usage_folds;

-- name: RankClients :many
-- All clients, or those that a search has found, those with most requests since a day first.
select cl.client_id, cl.name, cl.status, cl.requests_per_minute, coalesce(d.requests, 0)::bigint as requests
from clients cl
left join (
    select client_id, sum(requests)::bigint as requests from usage_days where day >= @since::date group by client_id
) d on d.client_id = cl.client_id
where (sqlc.narg(found)::uuid[] is null or cl.client_id = any (sqlc.narg(found)::uuid[]))
    and (coalesce(d.requests, 0) < @after_requests::bigint or coalesce(d.requests, 0) = @after_requests::bigint and cl.client_id > @after_id)
order by coalesce(d.requests, 0) desc, cl.client_id
limit @max_rows;

-- name: ClientsInNeed :many
-- The clients of a day for which something goes wrong that a person may have to look at: webhooks that were given up, used refresh tokens, answers
-- 5xx, or a twentieth of the requests over the rate.
select sqlc.embed(d), cl.name, cl.status
from usage_days d
join clients cl on cl.client_id = d.client_id
where d.day = @day and cl.status <> 'offboarded'
    and (d.webhooks_failed > 0 or d.replayed > 0 or d.failed > 0 or d.rate_limited > 0 and 20 * d.rate_limited >= d.requests)
order by d.webhooks_failed + d.replayed desc, d.failed desc, d.rate_limited desc, d.client_id
limit @max_rows;
