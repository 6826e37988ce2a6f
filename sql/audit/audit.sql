-- The audit log, for reading. What belongs to a change is written by the statement of the change, in its own domain.

-- name: ListAuditEvents :many
select id, at, actor, action, client_id, user_hash, connection_version, detail
from audit_events
where id > @after and (sqlc.narg(client_id)::uuid is null or client_id = sqlc.narg(client_id))
    and (sqlc.narg(user_id)::uuid is null or user_hash = audit_user(sqlc.narg(user_id)))
    and (sqlc.narg(since)::timestamptz is null or at >= sqlc.narg(since))
order by id
limit @max_rows;
