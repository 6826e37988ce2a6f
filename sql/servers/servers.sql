-- The servers that work on the database, and the database's size.

-- name: PutServer :exec
insert into servers (server_id, host, version, commit, started_at, seen_at, alerts)
values (@server_id, @host, @version, @commit, @started_at, connect_now(), @alerts)
on conflict (server_id) do update set seen_at = excluded.seen_at, alerts = excluded.alerts;

-- name: DeleteServer :exec
delete from servers where server_id = @server_id;

-- name: ListServers :many
-- The servers that were seen last, with the time since then by the database's clock.
select server_id as id, host, version, commit, started_at, seen_at, alerts, (connect_now() - seen_at)::interval as ago
from (select * from servers order by seen_at desc limit @max_rows) s
order by host, started_at, server_id;

-- name: DeleteLostServers :execrows
-- The limit keeps the statement within its timeout.
delete from servers where server_id in (
    select server_id from servers where seen_at < connect_now() - interval '1 day' limit 10000
);

-- name: RecordDatabaseSize :exec
-- Runs once a day: PostgreSQL reads the size of every file for it.
insert into database_sizes (day, bytes)
select today.day, pg_database_size(current_database())
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
select current_setting('server_version')::text as version, pg_database_size(current_database()) as bytes;

-- name: LargestTables :many
-- Sizes include indexes and TOAST. The number of rows is PostgreSQL's estimate.
select c.relname::text as name, pg_total_relation_size(c.oid) as bytes, pg_indexes_size(c.oid) as indexes,
    greatest(c.reltuples, 0)::bigint as rows
from pg_catalog.pg_class c
where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace
order by 2 desc, 1
limit @max_rows;
