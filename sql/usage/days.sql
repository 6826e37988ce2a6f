-- The numbers of what happened on each day, as rows of a client, a day, a metric and a number. The rows with the nil UUID are the sums over all clients.
-- Day of internal/admin/usage names the metrics.

-- name: AddToDays :exec
-- Rows are locked in one order, so that servers that write at the same time do not deadlock. Those of a metric lie together for RankClients.
insert into usage_days as d (client_id, day, metric, n)
select r.client_id, r.day, r.metric, r.n
from (
    select unnest(@client_ids::uuid[]) as client_id, unnest(@days::date[]) as day, unnest(@metrics::text[]) as metric,
        unnest(@numbers::bigint[]) as n
) r
order by r.day, r.metric, r.client_id
on conflict (client_id, day, metric) do update set n = d.n + excluded.n;

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
-- The authorizations of each client, and the ends of its connections by reason.
select client_id::uuid as client_id, coalesce(connection_end(action, actor, detail), '')::text as ended, count(*) as acts
from audit_log
where action in ('connection.authorized', 'connection.revoked', 'connection.disconnected')
    and at >= @since and at < @until and client_id is not null
group by 1, 2;

-- name: CountStates :many
-- The connections by state, and those that have lapsed since the last count: today or before. A generation of 0 waits for its token (ReplayActs).
select client_id,
    count(*) filter (where state = 'authorized') as authorized,
    count(*) filter (where state = 'lapsed') as lapsed,
    count(*) filter (where state = 'revoked') as revoked,
    count(*) filter (where state = 'disconnected') as disconnected,
    count(*) filter (where lapses and state_at_midnight <> 'lapsed') as lapsed_today,
    count(*) filter (where lapses and state_at_midnight = 'lapsed') as lapsed_earlier
from (
    select client_id, connection_state(state, refresh_deadline, @until) as state,
        connection_state(state, refresh_deadline, @until) = 'lapsed' and connection_state(state, refresh_deadline, @since) <> 'lapsed'
            and refresh_generation > 0 as lapses, connection_state(state, refresh_deadline, @today) as state_at_midnight
    from connections
    where version > 0
) c
group by client_id;

-- name: ListLapses :many
-- The connections that have lapsed before today and since the last count.
select client_id, (refresh_deadline at time zone 'UTC')::date as day, count(*) as connections
from connections
where refresh_generation > 0 and version > 0
    and connection_state(state, refresh_deadline, @today) = 'lapsed' and connection_state(state, refresh_deadline, @since) <> 'lapsed'
group by 1, 2;

-- name: ListDay :many
-- The metrics of all clients on a day.
select * from usage_days where day = @day;

-- name: SweepDays :execrows
delete from usage_days where day < @before::date;

-- name: ReadDays :many
-- The days of some clients, or of all together.
select * from usage_days where client_id = any (@client_ids::uuid[]) and day >= @since::date;

-- name: CountedUntil :one
select counted_until from usage_folds;

-- name: RankClients :many
-- All clients, or those that a search has found: by name, or those with most of some metrics since a day first. only_failing leaves those to which
-- answers failed or for which webhooks were given up. asked has all metrics that this needs.
select cl.client_id, cl.name, cl.status, cl.requests_per_minute, coalesce(d.ranked, 0)::bigint as ranked
from clients cl
left join (
    select client_id, sum(n) filter (where metric = any (@metrics::text[])) as ranked,
        sum(n) filter (where metric in ('failed', 'webhooks_failed')) as failures
    from usage_days
    where day >= @since::date and metric = any (@asked::text[])
    group by client_id
) d on d.client_id = cl.client_id
where (sqlc.narg(found)::uuid[] is null or cl.client_id = any (sqlc.narg(found)::uuid[]))
    and (not @only_failing::bool or d.failures > 0)
    and case when @by_name::bool
        then coalesce((lower(cl.name) collate "C", cl.client_id) > (
            select lower(a.name) collate "C", a.client_id from clients a where a.client_id = @after_id::uuid
        ), true)
        else coalesce(d.ranked, 0) < @after_ranked::bigint or coalesce(d.ranked, 0) = @after_ranked::bigint and cl.client_id > @after_id::uuid
    end
order by case when @by_name::bool then lower(cl.name) end collate "C", coalesce(d.ranked, 0) desc, cl.client_id
limit @max_rows;

-- name: ClientsInNeed :many
-- The clients of a day for which something goes wrong that a person may have to look at: webhooks that were given up, used refresh tokens, answers
-- 5xx, or a twentieth of the requests over the rate.
select cl.client_id, cl.name, cl.status, d.webhooks_failed, d.replayed, d.failed, d.rate_limited, d.requests
from (
    select client_id,
        coalesce(sum(n) filter (where metric = 'webhooks_failed'), 0)::bigint as webhooks_failed,
        coalesce(sum(n) filter (where metric = 'replayed'), 0)::bigint as replayed,
        coalesce(sum(n) filter (where metric = 'failed'), 0)::bigint as failed,
        coalesce(sum(n) filter (where metric = 'rate_limited'), 0)::bigint as rate_limited,
        coalesce(sum(n) filter (where metric = 'requests'), 0)::bigint as requests
    from usage_days
    where day = @day and metric in ('webhooks_failed', 'replayed', 'failed', 'rate_limited', 'requests')
    group by client_id
) d
join clients cl on cl.client_id = d.client_id
where cl.status <> 'offboarded'
    and (d.webhooks_failed > 0 or d.replayed > 0 or d.failed > 0 or d.rate_limited > 0 and 20 * d.rate_limited >= d.requests)
order by d.webhooks_failed + d.replayed desc, d.failed desc, d.rate_limited desc, d.client_id
limit @max_rows;
