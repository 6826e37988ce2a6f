-- Statements about credentials and grants that change no connection.

-- name: AuthenticateClients :many
-- The given credentials that are right.
select cl.client_id, given.secret_hash
from (select unnest(@client_ids::uuid[]) as client_id, unnest(@secret_hashes::bytea[])::bytea as secret_hash) as given
join clients cl on cl.client_id = given.client_id
where is_active(cl.status)
    and is_secret_of(given.secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz);

-- name: AddGrant :exec
insert into grant_directory (grant_id, user_id, client_id) values (@grant_id, @user_id, @client_id);

-- name: RevokeAccessToken :one
-- If the user was deleted, the foreign key refuses the row.
with revoked as (
    insert into revoked_access_tokens (user_id, token_id, expires_at)
    select @user_id::uuid, @token_id::uuid, @expires_at::timestamptz from clients cl
    where @expires_at::timestamptz > connect_now() and cl.client_id = @client_id
        and is_active(cl.status)
        and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz)
        and is_believed(@expected::pg_catalog.timestamptz)
    on conflict do nothing
    returning user_id
), fresh as materialized (
    select nextval('audit_log_id_seq') as entry_id
), audited as (
    insert into audit_log (subject, id, actor, action, user_id, client_id, connection_version)
    overriding system value
    select u.user_id, fresh.entry_id, 'client', 'access_token.revoked', revoked.user_id, @client_id::uuid, @version::bigint
    from revoked cross join fresh join users u on u.user_id = @user_id
)
select is_believed(@expected::pg_catalog.timestamptz)::boolean as believed from clients cl
where cl.client_id = @client_id and is_active(cl.status)
    and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz);

-- name: FindGrant :one
-- Returns the user of a grant, or null if the client does not have the grant. Returns no row if the client's credentials are wrong.
select g.user_id
from clients cl
left join grant_directory g on g.grant_id = @grant_id and g.client_id = cl.client_id
where cl.client_id = @client_id and is_active(cl.status)
    and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz);

-- name: ListGrantsOfUser :many
select grant_id from connections where user_id = @user_id;

-- name: DeleteGrants :exec
delete from grant_directory where grant_id = any (@grant_ids::uuid[]);

-- name: AuthenticateAccess :one
-- Everything that an activity read needs about the bearer of an access token (5.2), in one round trip. refusal: why the token gives no
-- access; empty if it gives access. Returns no row if the user was deleted. recorded: the scopes whose
-- read in this hour (UTC) is recorded. A token that expires later than the longest lifetime from now, and the minute by
-- which clocks may differ, was issued while the clock was wrong.
select c.grant_id, c.scopes, c.history_from, u.registered_on,
    cl.requests_per_minute, cl.burst, cl.concurrent_reads, connect_now()::timestamptz as now,
    (case when c.last_read_at >= date_trunc('hour', connect_now(), 'UTC') then
        case when c.steps_read_at >= date_trunc('hour', c.last_read_at, 'UTC') then 1 else 0 end
        + case when c.cycling_read_at >= date_trunc('hour', c.last_read_at, 'UTC') then 2 else 0 end
        + case when c.rides_read_at >= date_trunc('hour', c.last_read_at, 'UTC') then 4 else 0 end
    else 0 end)::smallint as recorded,
    (case
        when @expires_at::timestamptz <= connect_now() then 'the access token has expired'
        when c.version > @version then 'the access token is of an earlier version of the connection'
        when c.version < @version
            then 'the access token is of a later version of the connection than the database, which has lost commits'
        when c.state <> 'authorized' then 'the connection is ' || c.state
        when not is_authorized(c.state, c.refresh_deadline) then 'the connection has lapsed: it was not refreshed in time'
        when not is_active(cl.status) then 'the client is not active'
        when exists (select 1 from revoked_access_tokens r where r.user_id = @user_id and r.token_id = @token_id)
            then 'the access token was revoked'
        when @expires_at::timestamptz > connect_now() + interval '6 minutes' then 'the access token was issued while the clock was wrong'
        else ''
    end)::text as refusal,
    is_believed(@expected::pg_catalog.timestamptz)::boolean as believed
from connections c
join clients cl on cl.client_id = c.client_id
join users u on u.user_id = c.user_id
where c.user_id = @user_id and c.client_id = @client_id;

-- name: SweepRevokedAccessTokens :execrows
delete from revoked_access_tokens where (user_id, token_id) in (
    select user_id, token_id from revoked_access_tokens where expires_at <= @before::timestamptz limit 50000
);
