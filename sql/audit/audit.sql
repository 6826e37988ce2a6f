-- The audit log, for reading, and its end. What belongs to a change is written by the statement of the change, in its own
-- domain.

-- name: ListAuditLog :many
select id, at, actor, action, user_id, client_id, connection_version, detail
from audit_log
where (at, id) > (@after_at::timestamptz, @after_id::bigint)
    and (sqlc.narg(until)::timestamptz is null or at < sqlc.narg(until))
    and (sqlc.narg(client_id)::uuid is null or client_id = sqlc.narg(client_id))
    and (sqlc.narg(user_id)::uuid is null or subject = sqlc.narg(user_id))
    and (sqlc.narg(actor)::text is null or actor = sqlc.narg(actor))
    and (sqlc.narg(action)::text is null or action = sqlc.narg(action))
order by at, id
limit @max_rows;

-- name: SweepAuditLog :execrows
-- The limit keeps the statement within its timeout.
delete from audit_log where (subject, id) in (
    select subject, id from audit_log where at < connect_now() - @retention::interval order by at limit @max_rows
);
