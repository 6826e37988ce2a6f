-- Sessions of the operator's console. They live by the time that the server expects, because operators need the console while the
-- database's clock is wrong.

-- name: StartSession :exec
insert into operator_sessions (secret_hash, token_hash, expires_at)
values (@secret_hash, @token_hash, coalesce(@expected::pg_catalog.timestamptz, connect_now()) + @lifetime::interval);

-- name: AuditSession :exec
-- Runs in the transaction that starts or ends a session.
insert into audit_log (subject, actor, action)
values ('00000000-0000-0000-0000-000000000000', @actor, @action);

-- name: GetSession :one
select token_hash, expires_at
from operator_sessions
where secret_hash = @secret_hash and expires_at > coalesce(@expected::pg_catalog.timestamptz, connect_now());

-- name: EndSession :execrows
delete from operator_sessions where secret_hash = @secret_hash;

-- name: DeleteExpiredSessions :execrows
delete from operator_sessions where secret_hash in (
    select secret_hash from operator_sessions where expires_at <= @before::timestamptz limit 50000
);
