-- Links to a partner's pages and sessions there. They live by the time that the server expects while it does not believe the clock, like sessions
-- of the console.

-- name: LockClient :one
-- Runs in the transaction that creates a link: what ends the client waits, and then ends the link, too. So does another creation.
select status, is_active(status)::boolean as active from clients where client_id = @client_id for no key update;

-- name: CountSessions :one
select count(*) from portal_sessions
where client_id = @client_id and expires_at > believed_time(@expected::pg_catalog.timestamptz);

-- name: InsertLink :one
insert into portal_sessions (client_id, session_id, secret_hash, name, read_only, created_by, created_at, expires_at)
values (@client_id, @session_id, @secret_hash, @name, @read_only, @created_by,
    believed_time(@expected::pg_catalog.timestamptz), believed_time(@expected::pg_catalog.timestamptz) + @valid::interval)
returning client_id, session_id, secret_hash, name, read_only, created_by, created_at, opened_at, expires_at;

-- name: FindSession :one
-- A link or a session.
select s.*
from portal_sessions s join clients c on c.client_id = s.client_id
where s.client_id = @client_id and s.secret_hash = @secret_hash and is_active(c.status)
  and s.expires_at > believed_time(@expected::pg_catalog.timestamptz);

-- name: OpenLink :one
update portal_sessions
set secret_hash = @session_hash, opened_at = believed_time(@expected::pg_catalog.timestamptz),
    expires_at = believed_time(@expected::pg_catalog.timestamptz) + @lifetime::interval
where client_id = @client_id and secret_hash = @link_hash and opened_at is null
  and expires_at > believed_time(@expected::pg_catalog.timestamptz)
returning client_id, session_id, secret_hash, name, read_only, created_by, created_at, opened_at, expires_at;

-- name: ListSessions :many
select * from portal_sessions
where client_id = @client_id and expires_at > believed_time(@expected::pg_catalog.timestamptz)
order by created_at desc, session_id;

-- name: EndSession :many
delete from portal_sessions
where client_id = @client_id and session_id = @session_id and expires_at > believed_time(@expected::pg_catalog.timestamptz)
returning name;

-- name: EndSessions :execrows
-- All of a client.
delete from portal_sessions where client_id = @client_id;

-- name: DeleteExpired :execrows
delete from portal_sessions where (client_id, session_id) in (
    select client_id, session_id from portal_sessions where expires_at <= @before::timestamptz limit 50000
);

-- name: AuditSession :exec
-- Runs in the transaction of the act.
insert into audit_log (subject, actor, action, client_id, detail)
values (@client_id::uuid, @actor::text, @action, @client_id::uuid, @detail);
