-- Reads and sweeps the audit log. The statements that make changes insert their entries, in their own domains.

-- name: InsertEntry :exec
-- An entry that belongs to no change, and concerns no client. The subject is the user, or the zero UUID if it concerns none.
insert into audit_log (subject, user_id, actor, action, detail)
values (@subject, sqlc.narg(user_id), @actor, @action, @detail);

-- name: WasEntered :one
-- Whether there is such an entry of the last minute.
select exists (
    select 1 from audit_log where subject = @subject and at > connect_now() - interval '1 minute' and actor = @actor and action = @action
)::bool;

-- name: SweepAuditLog :execrows
-- The limit keeps the statement within its timeout.
delete from audit_log where (subject, at, id) in (
    select subject, at, id from audit_log where at < @before::timestamptz order by at limit @max_rows
);

-- name: Now :one
select connect_now()::timestamptz;

-- name: Settled :one
select audit_log_settled()::timestamptz;

-- name: ReadInOrder :exec
-- Makes the rest of the transaction read indexes in their order, whatever the planner's statistics say. They may mislead: an actor who
-- was busy last year and did nothing since would be searched for in all entries since. The disabled plans count as so expensive that
-- PostgreSQL would spend a second on compiling each statement.
select set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
    set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);

-- name: ScanBackward :many
-- Reads the next slice of the log, backwards from a position. It returns the matching entries, and the last entry, where the search
-- continues. One of the seven subqueries reads rows: that of a connection, user, client, ends of a client's connections, rare actor or rare
-- action, or that of all. The
-- comparisons of whole rows leave one index for each, of which no more than the slice is read.
with slice as (
    (select * from audit_log
    where (subject, client_id, at, id) < (sqlc.narg(connected_user)::uuid, sqlc.narg(connected_client)::uuid, @from_at::timestamptz, @from_id::bigint)
        and (subject, client_id, at, id) >= (sqlc.narg(connected_user)::uuid, sqlc.narg(connected_client)::uuid, @to_at::timestamptz, 0)
        and client_id is not null
    order by subject desc, client_id desc, at desc, id desc limit @slice::int)
    union all
    (select * from audit_log
    where (subject, at, id) < (sqlc.narg(of_user)::uuid, @from_at::timestamptz, @from_id::bigint)
        and (subject, at, id) >= (sqlc.narg(of_user)::uuid, @to_at::timestamptz, 0)
    order by subject desc, at desc, id desc limit @slice::int)
    union all
    (select * from audit_log
    where (client_id, at, id) < (sqlc.narg(of_client)::uuid, @from_at::timestamptz, @from_id::bigint)
        and (client_id, at, id) >= (sqlc.narg(of_client)::uuid, @to_at::timestamptz, 0)
        and client_id is not null
    order by client_id desc, at desc, id desc limit @slice::int)
    union all
    (select * from audit_log
    where (client_id, at, id) < (sqlc.narg(ended_client)::uuid, @from_at::timestamptz, @from_id::bigint)
        and (client_id, at, id) >= (sqlc.narg(ended_client)::uuid, @to_at::timestamptz, 0)
        and action in ('connection.revoked', 'connection.disconnected', 'connection.lapsed')
    order by client_id desc, at desc, id desc limit @slice::int)
    union all
    (select * from audit_log
    where (actor, at, id) < (sqlc.narg(of_actor)::text, @from_at::timestamptz, @from_id::bigint)
        and (actor, at, id) >= (sqlc.narg(of_actor)::text, @to_at::timestamptz, 0)
        and actor not in ('user', 'client')
    order by actor desc, at desc, id desc limit @slice::int)
    union all
    (select * from audit_log
    where (action, at, id) < (sqlc.narg(of_action)::text, @from_at::timestamptz, @from_id::bigint)
        and (action, at, id) >= (sqlc.narg(of_action)::text, @to_at::timestamptz, 0)
        and action not in ('user.created', 'consent.allowed', 'connection.authorized', 'connection.disconnected', 'connection.revoked')
    order by action desc, at desc, id desc limit @slice::int)
    union all
    (select * from audit_log
    where @of_all::bool and (at, id) < (@from_at::timestamptz, @from_id::bigint)
        and (at, id) >= (@to_at::timestamptz, 0)
    order by at desc, id desc limit @slice::int)
), told as (
    select s.*, connection_end(s.action, s.actor, s.detail) as ended from slice s
), scanned as (
    select id, at, actor, action, user_id, client_id, connection_version, detail, ended,
        (sqlc.narg(client_id)::uuid is null or client_id is not distinct from sqlc.narg(client_id))
            and (sqlc.narg(actor)::text is null or actor = sqlc.narg(actor))
            and (sqlc.narg(action)::text is null or action = sqlc.narg(action))
            and (sqlc.narg(ended)::text is null or ended is not distinct from sqlc.narg(ended) or sqlc.narg(ended) = '' and ended is not null) as found,
        row_number() over (order by at desc, id desc) as place
    from told
)
select id, at, actor, action, user_id, client_id, connection_version, detail, coalesce(ended, '')::text as ended, found::bool as found,
    place::int as place
from scanned
where found or place = @slice::int
order by at desc, id desc;

-- name: ScanForward :many
-- ScanBackward in the other direction: oldest first.
with slice as (
    (select * from audit_log
    where (subject, client_id, at, id) > (sqlc.narg(connected_user)::uuid, sqlc.narg(connected_client)::uuid, @from_at::timestamptz, @from_id::bigint)
        and (subject, client_id, at, id) < (sqlc.narg(connected_user)::uuid, sqlc.narg(connected_client)::uuid, @to_at::timestamptz, 0)
        and client_id is not null
    order by subject, client_id, at, id limit @slice::int)
    union all
    (select * from audit_log
    where (subject, at, id) > (sqlc.narg(of_user)::uuid, @from_at::timestamptz, @from_id::bigint)
        and (subject, at, id) < (sqlc.narg(of_user)::uuid, @to_at::timestamptz, 0)
    order by subject, at, id limit @slice::int)
    union all
    (select * from audit_log
    where (client_id, at, id) > (sqlc.narg(of_client)::uuid, @from_at::timestamptz, @from_id::bigint)
        and (client_id, at, id) < (sqlc.narg(of_client)::uuid, @to_at::timestamptz, 0)
        and client_id is not null
    order by client_id, at, id limit @slice::int)
    union all
    (select * from audit_log
    where (client_id, at, id) > (sqlc.narg(ended_client)::uuid, @from_at::timestamptz, @from_id::bigint)
        and (client_id, at, id) < (sqlc.narg(ended_client)::uuid, @to_at::timestamptz, 0)
        and action in ('connection.revoked', 'connection.disconnected', 'connection.lapsed')
    order by client_id, at, id limit @slice::int)
    union all
    (select * from audit_log
    where (actor, at, id) > (sqlc.narg(of_actor)::text, @from_at::timestamptz, @from_id::bigint)
        and (actor, at, id) < (sqlc.narg(of_actor)::text, @to_at::timestamptz, 0)
        and actor not in ('user', 'client')
    order by actor, at, id limit @slice::int)
    union all
    (select * from audit_log
    where (action, at, id) > (sqlc.narg(of_action)::text, @from_at::timestamptz, @from_id::bigint)
        and (action, at, id) < (sqlc.narg(of_action)::text, @to_at::timestamptz, 0)
        and action not in ('user.created', 'consent.allowed', 'connection.authorized', 'connection.disconnected', 'connection.revoked')
    order by action, at, id limit @slice::int)
    union all
    (select * from audit_log
    where @of_all::bool and (at, id) > (@from_at::timestamptz, @from_id::bigint)
        and (at, id) < (@to_at::timestamptz, 0)
    order by at, id limit @slice::int)
), told as (
    select s.*, connection_end(s.action, s.actor, s.detail) as ended from slice s
), scanned as (
    select id, at, actor, action, user_id, client_id, connection_version, detail, ended,
        (sqlc.narg(client_id)::uuid is null or client_id is not distinct from sqlc.narg(client_id))
            and (sqlc.narg(actor)::text is null or actor = sqlc.narg(actor))
            and (sqlc.narg(action)::text is null or action = sqlc.narg(action))
            and (sqlc.narg(ended)::text is null or ended is not distinct from sqlc.narg(ended) or sqlc.narg(ended) = '' and ended is not null) as found,
        row_number() over (order by at, id) as place
    from told
)
select id, at, actor, action, user_id, client_id, connection_version, detail, coalesce(ended, '')::text as ended, found::bool as found,
    place::int as place
from scanned
where found or place = @slice::int
order by at, id;
