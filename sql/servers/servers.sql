-- The servers that work on the database, and the database's size.

-- name: PutServer :exec
-- A heartbeat of a server that has not noticed a jump of the clock has the time that the server expects. By the clock that jumped it is
-- not recent, so it says nothing in favour of that clock (CountClocks).
insert into servers (server_id, host, version, commit, started_at, seen_at, alerts, clock_ahead, clock_believed, limiter,
    public_certificate_ends, private_certificate_ends)
values (@server_id, @host, @version, @commit, @started_at,
    believed_time(case when @clock_believed then @expected::pg_catalog.timestamptz end), @alerts, @clock_ahead::interval, @clock_believed, @limiter,
    @public_certificate_ends, @private_certificate_ends)
on conflict (server_id) do update set seen_at = excluded.seen_at, alerts = excluded.alerts, clock_ahead = excluded.clock_ahead,
    clock_believed = excluded.clock_believed, limiter = excluded.limiter,
    public_certificate_ends = excluded.public_certificate_ends, private_certificate_ends = excluded.private_certificate_ends;

-- name: LockLimiter :exec
-- One server after the other compares its limiter with those of the others and joins them.
select turn from turns where turn = 'limiter' for update;

-- name: FindOtherLimiter :many
-- The server that was seen last of those whose limiter has another store.
select host, limiter, seen_at from servers
where server_id <> @server_id and limiter <> @limiter and limiter <> ''
    and seen_at between connect_now() - @lost_after::interval and connect_now() + @lost_after::interval
order by seen_at desc
limit 1;

-- name: CountClocks :one
-- The votes of the other servers on the database's clock. Each has two: its clock, and whether it believes the database's. Servers send
-- heartbeats every 30 s. Heartbeats from before a jump of the clock do not count, because they seem older, or of the future. The clock
-- may jump back to the time when a server was killed: its heartbeat does not count, because it is older than what others believed, or
-- than the expected time. With the time of the database's clock itself.
select connect_now()::timestamptz as now, count(*) as servers,
    count(*) filter (where clock_ahead between interval '-1 minute' and interval '1 minute') as agreeing,
    count(*) filter (where clock_believed) as believing
from servers, (
    select greatest(connect_now(), @expected::pg_catalog.timestamptz, max(s.seen_at) filter (where s.clock_believed)) as at
    from servers s
) latest
where servers.server_id <> @server_id and servers.seen_at between latest.at - interval '45 seconds' and connect_now() + interval '5 seconds';

-- name: OthersWork :one
-- Whether another server has reached the database within a time.
select exists (
    select 1 from servers
    where server_id <> @server_id and seen_at between connect_now() - @within::interval and connect_now() + interval '5 seconds'
);

-- name: MoveSweep :one
-- Moves the time until which sweeps delete by a step, to five minutes ago at most. So they delete nothing that a clock that is a little
-- wrong has not really made expire. Citus refuses to add to the column in the update itself.
update sweeps s set swept_until = moved.until
from (select id, least(connect_now() - interval '5 minutes', swept_until + @step::interval)::timestamptz as until from sweeps) moved
where s.id = moved.id
returning moved.until;

-- name: DeleteServer :exec
delete from servers where server_id = @server_id;

-- name: DismissServer :exec
-- Removes a server whose heartbeats have stopped.
delete from servers
where server_id = @server_id and seen_at not between connect_now() - @lost_after::interval and connect_now() + @lost_after::interval;

-- name: Sizes :one
-- The newest recorded size of the database, and the one of a week before it; 0 if there is none.
select coalesce(max(s.bytes) filter (where s.day = latest.day), 0)::bigint as bytes,
    coalesce(max(s.bytes) filter (where s.day = latest.day - 7), 0)::bigint as week_before
from database_sizes s, (select max(day) as day from database_sizes) latest;

-- name: ListServers :many
-- The servers that were seen last, with the time since then by the database's clock.
select server_id as id, host, version, commit, started_at, seen_at, alerts, clock_ahead, clock_believed, limiter,
    public_certificate_ends, private_certificate_ends, (connect_now() - seen_at)::interval as ago
from (select * from servers order by seen_at desc limit @max_rows) s
order by host collate "C", started_at, server_id;

-- name: DeleteLostServers :execrows
-- The limit keeps the statement within its timeout.
delete from servers where server_id in (
    select server_id from servers
    where seen_at not between connect_now() - interval '1 day' and connect_now() + interval '1 day'
    limit 10000
);

-- name: RecordDatabaseSize :exec
-- Runs once a day: PostgreSQL reads the size of every file for it.
insert into database_sizes (day, bytes)
select today.day, database_bytes()
from (select (connect_now() at time zone 'UTC')::date as day) today
where not exists (select 1 from database_sizes recorded where recorded.day = today.day)
on conflict (day) do nothing;

-- name: DeletePastSizes :exec
delete from database_sizes where day < (connect_now() at time zone 'UTC')::date - 400;

-- name: ListDatabaseSizes :many
select day, bytes from database_sizes
where day >= (connect_now() at time zone 'UTC')::date - @days::int
order by day;

-- name: Database :one
select current_setting('server_version')::text as version, database_bytes()::bigint as bytes;

-- name: LargestTables :many
-- Sizes include indexes and TOAST. The number of rows is PostgreSQL's estimate.
select t.name::text as name, t.bytes::bigint as bytes, t.indexes::bigint as indexes, t.rows::bigint as rows
from table_sizes() as t
order by 2 desc, t.name collate "C"
limit @max_rows;
