-- The requests of clients by hour, and the charged ones by minute.

-- name: AddUsage :batchexec
insert into usage_hours as u (client_id, hour, operation, status, requests, durations)
values (@client_id, @hour, @operation, @status, @requests, @durations)
on conflict (client_id, hour, operation, status) do update
set requests = u.requests + excluded.requests,
    durations = add_counts(u.durations, excluded.durations);

-- name: AddCharged :batchexec
insert into usage_minutes as u (client_id, minute, charged)
values (@client_id, @minute, @charged)
on conflict (client_id, minute) do update
set charged = u.charged + excluded.charged;

-- name: AddLatency :batchexec
insert into latency_hours as l (hour, operation, requests, total_us, database_us, limiter_us, durations)
values (@hour, @operation, @requests, @total_us, @database_us, @limiter_us, @durations)
on conflict (hour, operation) do update
set requests = l.requests + excluded.requests, total_us = l.total_us + excluded.total_us, database_us = l.database_us + excluded.database_us,
    limiter_us = l.limiter_us + excluded.limiter_us, durations = add_counts(l.durations, excluded.durations);

-- name: DeletePastLatencies :exec
delete from latency_hours where hour < @before;

-- name: ListLatencies :many
select * from latency_hours where hour >= @since order by operation, hour;

-- name: UsageByHour :many
select hour, operation, status, durations
from usage_hours
where client_id = @client_id and hour >= @since
order by operation, hour, status;

-- name: BudgetByHour :many
select date_trunc('hour', minute, 'UTC')::timestamptz as hour, sum(charged)::bigint as charged,
    max(charged)::bigint as busiest_minute
from usage_minutes
where client_id = @client_id and minute >= @since
group by 1;

-- A client can have as many connections as there are users, so only a bounded number is counted.
-- name: CountClientStates :many
select shown.state, count(*) as connections
from (
    select connection_state(c.state, c.refresh_deadline, (select connect_now()))::text as state
    from connections c where c.client_id = @client_id and c.version > 0
    limit @at_most
) shown
group by shown.state;

-- name: UsageClient :one
select client_id, name, status, requests_per_minute from clients where client_id = @client_id;

-- name: SweepUsage :execrows
delete from usage_hours where hour < @before;

-- name: SweepCharged :execrows
delete from usage_minutes where minute < @before;

-- An unknown client gets no errors: callers can make up ids.
-- name: AddClientError :batchexec
insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, request_ids, grant_ids)
select cl.client_id, @authenticated, @at, @operation, @status, @code, @reason, @requests, @request_ids, @grant_ids
from clients cl where cl.client_id = @client_id;

-- Keeps the latest errors of a client of one kind, and counts the requests of the others. It runs in the transaction that adds errors.
-- name: TrimClientErrors :batchexec
with trimmed as (
    delete from client_errors e
    where e.client_id = @client_id and e.authenticated = @authenticated and e.operation collate "C" = @operation and e.status = @status
        and e.code collate "C" = @code and (e.at, e.error_id) in (
            select old.at, old.error_id from client_errors old
            where old.client_id = @client_id and old.authenticated = @authenticated and old.operation collate "C" = @operation
                and old.status = @status and old.code collate "C" = @code
            order by old.at desc, old.error_id desc
            offset @kept::int
        )
    returning e.client_id, e.authenticated, e.at, e.operation, e.status, e.code, e.requests
)
insert into client_error_counts as n (client_id, authenticated, day, operation, status, code, requests)
select t.client_id, t.authenticated, (t.at at time zone 'UTC')::date as day, t.operation, t.status, t.code, sum(t.requests)::bigint
from trimmed t
group by 1, 2, 3, 4, 5, 6
order by day
on conflict (client_id, authenticated, day, operation, status, code) do update set requests = n.requests + excluded.requests;

-- How many requests of each kind were refused, how many of them are kept one by one, and since when.
-- name: CountClientErrors :many
select k.authenticated, k.operation, k.status, k.code, sum(k.requests + k.counted)::bigint as requests, sum(k.requests)::bigint as listed,
    max(k.at)::timestamptz as last_at, min(k.at)::timestamptz as listed_since
from (
    select e.authenticated, e.operation, e.status, e.code, e.requests, 0::bigint as counted, e.at
    from client_errors e where e.client_id = @client_id
    union all
    select n.authenticated, n.operation, n.status, n.code, 0::bigint, n.requests, null
    from client_error_counts n where n.client_id = @client_id
) k
group by 1, 2, 3, 4
having count(k.at) > 0
order by 1 desc, 2, 3, 4;

-- Latest first. A client has some hundred of each kind at most, adjacent in the primary key.
-- name: ListClientErrors :many
select * from client_errors
where client_id = @client_id and (at, error_id) < (@before_at::timestamptz, @before_id::uuid)
  and (@operation::text = '' or operation = @operation) and (@status::int = 0 or status = @status) and (@code::text = '' or code = @code)
  and (sqlc.narg(request_id)::uuid is null or request_ids @> array[sqlc.narg(request_id)::uuid])
  and (sqlc.narg(grant_id)::uuid is null or grant_ids @> array[sqlc.narg(grant_id)::uuid])
order by at desc, error_id desc
limit @max_rows;

-- name: KnownClients :many
select client_id from clients where client_id = any (@client_ids::uuid[]);

-- name: SweepClientErrors :execrows
delete from client_errors where at < @before;

-- name: SweepClientErrorCounts :execrows
delete from client_error_counts where day < @before::date;

-- name: GrantsOfUser :many
select grant_id from connections where user_id = @user_id;

-- name: ForgetGrants :exec
update client_errors
set grant_ids = array(select g from unnest(grant_ids) g where g <> all (@grant_ids::uuid[]))
where grant_ids && @grant_ids::uuid[];

-- name: LatestGrants :many
-- The grants of refused requests since then.
select distinct unnest(grant_ids)::uuid as grant_id from client_errors where at >= @since::timestamptz;

-- name: KnownGrants :many
select grant_id from grant_directory where grant_id = any (@grant_ids::uuid[]) order by grant_id;
