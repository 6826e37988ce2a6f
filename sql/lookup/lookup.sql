-- Reads what an id, an address or a name belongs to, for operators. Each statement but ListClientNames is a look-up in one index.

-- name: FindUser :many
select user_id, email from users where user_id = @id;

-- name: FindUserOfAddress :many
select user_id, email from user_addresses where address = @address;

-- name: FindGrant :many
select g.user_id, g.client_id, c.name from grant_directory g join clients c on c.client_id = g.client_id where g.grant_id = @id;

-- name: FindGrantOfHash :many
-- The log has this hash of a grant id.
select g.user_id, g.client_id, c.name from grant_directory g join clients c on c.client_id = g.client_id
where substring(sha256(uuid_send(g.grant_id)) for 8) = @hash::bytea;

-- name: FindEndedGrant :many
-- The user and the client of a grant that has ended. A deleted user's grant is only here, as long as the events about its end are kept: the
-- client's, and the operator's about the client.
select user_id, coalesce(about_client_id, client_id)::uuid as client_id
from webhook_events where grant_id = @id and type in ('connection.revoked', 'connection.ended') limit 1;

-- name: FindClient :many
select client_id, name from clients where client_id = @id;

-- name: ListClientNames :many
-- The program compares them. There are some thousand clients at most, so that no index is needed.
select client_id, name from clients order by created_at, client_id;

-- name: FindRefusedRequest :many
select e.client_id, c.name, e.at, e.operation, e.status, e.code, e.reason
from client_errors e join clients c on c.client_id = e.client_id
where e.request_ids @> array[@id::uuid];

-- name: FindWebhookEvent :many
select e.user_id, e.client_id, coalesce(c.name, 'operator')::text as name, e.event_id, e.type, e.state, e.created_at
from webhook_events e left join clients c on c.client_id = e.client_id
where e.event_id = @id;
