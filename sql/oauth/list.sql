-- Lists of connections for people, with the refreshes, and the client's status and allowance, on which they depend.

-- name: ListConnectionsOfUser :many
select c.user_id, c.client_id, c.grant_id, cl.name, cl.homepage_url, cl.privacy_url, cl.terms_url, cl.logo, c.version,
    connection_state(c.state, c.refresh_deadline)::text as state, c.scopes, c.history_from, c.authorized_at, c.last_read_at,
    c.steps_read_at, c.cycling_read_at, c.rides_read_at, c.refresh_generation, c.refresh_deadline,
    (case when c.version <= c.browser_version + 1 then c.browser else '' end)::text as browser, cl.status, cl.scopes as registered
from connections c
join clients cl using (client_id)
where c.user_id = @user_id and c.state <> 'disconnected'
order by c.client_id;

-- name: ListConnections :many
-- Includes connections that have ended. A null filter matches all.
select c.user_id, c.client_id, c.grant_id, cl.name, cl.homepage_url, cl.privacy_url, cl.terms_url, cl.logo, c.version,
    connection_state(c.state, c.refresh_deadline)::text as state, c.scopes, c.history_from, c.authorized_at, c.last_read_at,
    c.steps_read_at, c.cycling_read_at, c.rides_read_at, c.refresh_generation, c.refresh_deadline,
    (case when c.version <= c.browser_version + 1 then c.browser else '' end)::text as browser, cl.status, cl.scopes as registered
from connections c
join clients cl using (client_id)
where (c.user_id, c.client_id) > (@after_user::uuid, @after_client::uuid) and c.version > 0
    and (sqlc.narg(user_id)::uuid is null or c.user_id = sqlc.narg(user_id))
    and (sqlc.narg(client_id)::uuid is null or c.client_id = sqlc.narg(client_id))
order by c.user_id, c.client_id
limit @max_rows;

-- name: CountRequestsOfUser :one
-- The user's pending requests, counted up to a thousand.
select count(*) from (
    select 1 from authorization_requests r where r.user_id = @user_id::uuid and not r.decided and r.expires_at > connect_now() limit 1000
) as r;

-- name: ListGrants :many
-- The grants of some users with a client. A deleted user has none.
select user_id, grant_id from connections where user_id = any (@user_ids::uuid[]) and client_id = @client_id;
