-- Connections and their credentials. Every statement that changes a connection is in this file. Races are settled here: each act is one statement that
-- says under which state, version and generation it may happen, so that of many at once one finds it so.
--
-- The acts of a client authenticate it, too: they happen only for an active client whose secret has this hash. An act that
-- did nothing is explained by a second statement (RefuseRefresh, RefuseExchange), in which client and connection are seen at one
-- moment: between the two the client may have been enabled. What is certain to fail, as a code that was used or a token of an
-- older generation, is found out before anything is locked.

-- Those of many credentials that are right. is_secret_of knows the rule (migrations).
-- name: AuthenticateClients :many
select cl.client_id, asked.secret_hash
from (select unnest(@client_ids::uuid[]) as client_id, unnest(@secret_hashes::bytea[])::bytea as secret_hash) as asked
join clients cl on cl.client_id = asked.client_id
where cl.status = 'active'
    and is_secret_of(asked.secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until);

-- The first consent of a user to a client makes the row that all later acts change, as version 0, and its directory row.
-- The first of two at a time makes it.
-- name: AddConnection :execrows
insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
    refresh_generation, refresh_deadline)
values (@user_id, @client_id, @grant_id, 0, 'disconnected', @scopes, @history_from, connect_now(), 1, connect_now())
on conflict do nothing;

-- name: AddGrant :exec
insert into grant_directory (grant_id, user_id, client_id) values (@grant_id, @user_id, @client_id);

-- The code exchange (specification 3.1, 4.3). The version that the code was issued under must be the present one, and
-- goes up by one: of all codes in flight the first exchanged wins, and a used code is one of an older version. An exchange
-- that began before its client was offboarded may end after that: EndConnectionsOfOffboarded finds it.
-- name: AuthorizeConnection :one
with authorized as (
    update connections c
    set version = c.version + 1,
        state = 'authorized',
        scopes = @scopes::scope_set,
        history_from = case when c.state = 'disconnected' then @consent_day::date else c.history_from end,
        authorized_at = connect_now(),
        refresh_generation = 1,
        refresh_hash = @refresh_hash::bytea,
        refresh_deadline = connect_now() + @inactivity::interval
    from clients cl
    where c.user_id = @user_id and c.client_id = @client_id and cl.client_id = c.client_id
        and c.version = @code_version::bigint and (c.state = 'disconnected' or c.scopes = @scopes::scope_set)
        and @code_expires_at::timestamptz > connect_now()
        and cl.status = 'active' and cl.callback_url = @redirect_uri and cl.scopes & @scopes::scope_set = @scopes::scope_set
        and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until)
    returning c.grant_id, c.user_id, c.client_id, c.version, c.scopes, c.history_from, c.authorized_at
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select user_id, 'client', 'connection.authorized', user_id, client_id, version,
        jsonb_build_object('scopes', scope_text(scopes))
    from authorized
)
select grant_id, version, scopes, history_from, authorized_at from authorized;

-- Why an exchange did nothing: no row where the client is not who it says. Possible says that it would be done now.
-- name: RefuseExchange :one
select exists (
    select 1 from connections c
    where c.user_id = @user_id and c.client_id = @client_id and c.version = @code_version::bigint
        and (c.state = 'disconnected' or c.scopes = @scopes::scope_set)
        and @code_expires_at::timestamptz > connect_now()
        and cl.callback_url = @redirect_uri and cl.scopes & @scopes::scope_set = @scopes::scope_set
) as possible, (case
    when not exists (select 1 from connections c
        where c.user_id = @user_id and c.client_id = @client_id and c.version = @code_version::bigint)
        then 'code was used, or another code was, or the user has disconnected or is deleted'
    when @code_expires_at::timestamptz <= connect_now() then 'code has expired'
    when cl.callback_url <> @redirect_uri then 'the registered callback has changed since the authorization request'
    when cl.scopes & @scopes::scope_set <> @scopes::scope_set then 'the client may no longer have all scopes of the code'
    else 'the connection has other scopes than the code'
end)::text as reason
from clients cl
where cl.client_id = @client_id and cl.status = 'active'
    and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until);

-- The refresh (3.2, 4.4): one conditional update of one row. The new deadline tells the time: it is as much later as the
-- inactivity is long.
-- name: RotateRefreshToken :one
update connections c
set refresh_generation = c.refresh_generation + 1,
    refresh_hash = @new_hash,
    refresh_deadline = connect_now() + @inactivity::interval
from clients cl
where c.user_id = @user_id and c.client_id = @client_id and cl.client_id = c.client_id
    and c.version = @version and c.state = 'authorized' and c.refresh_deadline > connect_now()
    and c.refresh_generation = @generation and c.refresh_hash = @presented_hash
    and cl.status = 'active' and cl.scopes & c.scopes = c.scopes
    and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until)
returning c.grant_id, c.version, c.scopes, c.history_from, c.refresh_deadline;

-- Whatever ends a connection tells the client, in the same statement, if it wants to know (section 6). The event names the
-- version whose credentials stopped working.

-- Why a refresh did nothing: no row where the client is not who it says. A token that was current before is presented
-- again: the family ends, also the token issued a moment ago (3.2). Possible says that the refresh would be done now.
-- name: RefuseRefresh :one
with client as (
    select client_id, scopes from clients
    where client_id = @client_id and status = 'active'
        and is_secret_of(@secret_hash, secret_hash, previous_secret_hash, previous_secret_until)
), revoked as (
    update connections c
    set state = 'revoked', refresh_hash = null
    from client
    where c.user_id = @user_id and c.client_id = @client_id and c.client_id = client.client_id and c.version = @version and c.state = 'authorized'
        and c.refresh_generation > @generation
    returning c.user_id, c.client_id, c.grant_id, c.version
), told as (
    insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
    select revoked.user_id, revoked.client_id, 'connection.revoked', revoked.grant_id, revoked.version, 'refresh_token_replayed'
    from revoked join webhook_endpoints w on w.client_id = revoked.client_id
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select revoked.user_id, 'client', 'connection.revoked', revoked.user_id, revoked.client_id, revoked.version,
        jsonb_build_object('reason', 'refresh_token_replayed')
    from revoked
)
select exists (select 1 from revoked) as replayed,
    exists (select 1 from connections c
        where c.user_id = @user_id and c.client_id = @client_id and c.version = @version and c.state = 'authorized'
            and c.refresh_deadline <= connect_now()) as lapsed,
    exists (select 1 from connections c
        where c.user_id = @user_id and c.client_id = @client_id and c.version = @version and c.state = 'authorized'
            and c.refresh_deadline > connect_now() and c.refresh_generation = @generation and c.refresh_hash = @presented_hash
            and client.scopes & c.scopes = c.scopes) as possible,
    coalesce((select case
            when c.version <> @version then 'refresh_token is of an earlier version of the connection'
            when c.state <> 'authorized' then 'the connection is ' || c.state
            when client.scopes & c.scopes <> c.scopes then 'the client may no longer have all scopes of the connection'
            else 'refresh_token is not the current one'
        end from connections c
        where c.user_id = @user_id and c.client_id = @client_id), 'the user is deleted')::text as reason
from client;

-- No row where the client is not who it says, also of RevokeAccessToken.
-- name: RevokeConnection :one
with client as (
    select cl.client_id from clients cl
    where cl.client_id = @client_id and cl.status = 'active'
        and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until)
), revoked as (
    update connections c
    set state = 'revoked', refresh_hash = null
    from client
    where c.user_id = @user_id and c.client_id = @client_id and c.version = @version and c.state = 'authorized'
        and c.client_id = client.client_id
    returning c.user_id, c.client_id, c.grant_id, c.version
), told as (
    insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
    select revoked.user_id, revoked.client_id, 'connection.revoked', revoked.grant_id, revoked.version, 'refresh_token_revoked'
    from revoked join webhook_endpoints w on w.client_id = revoked.client_id
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select revoked.user_id, 'client', 'connection.revoked', revoked.user_id, revoked.client_id, revoked.version,
        jsonb_build_object('reason', 'refresh_token_revoked')
    from revoked
)
select client_id from client;

-- The foreign key refuses a user who is gone.
-- name: RevokeAccessToken :one
with revoked as (
    insert into revoked_access_tokens (user_id, token_id, expires_at)
    select @user_id::uuid, @token_id::uuid, @expires_at::timestamptz from clients cl
    where @expires_at::timestamptz > connect_now() and cl.client_id = @client_id
        and cl.status = 'active'
        and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until)
    on conflict do nothing
    returning user_id
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version)
    select revoked.user_id, 'client', 'access_token.revoked', revoked.user_id, @client_id::uuid, @version::bigint
    from revoked
)
select cl.client_id from clients cl
where cl.client_id = @client_id and cl.status = 'active'
    and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until);

-- Whose grant it is: nobody's where the client has no such grant, and no row where the client is not who it says.
-- name: FindGrant :one
select g.user_id
from clients cl
left join grant_directory g on g.grant_id = @grant_id and g.client_id = cl.client_id
where cl.client_id = @client_id and cl.status = 'active'
    and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until);

-- The version goes up even where the connection is disconnected already: a code may be in flight that was issued
-- under the present version, and nothing works after a disconnect has answered (4.10). That is not worth an entry.
-- name: DisconnectConnection :one
with before as (
    select c.user_id, c.client_id, c.grant_id, c.version, c.state
    from connections c where c.user_id = @user_id and c.client_id = @client_id and c.version > 0
    for update
), ended as (
    update connections c
    set state = 'disconnected', version = c.version + 1, refresh_hash = null, last_read_at = null
    from before
    where c.user_id = @user_id and c.client_id = @client_id and c.client_id = before.client_id
), told as (
    insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
    select before.user_id, before.client_id, 'connection.revoked', before.grant_id, before.version,
        case when @actor::text = 'client' then 'client_disconnected' else 'user_disconnected' end
    from before join webhook_endpoints w on w.client_id = before.client_id
    where before.state <> 'disconnected'
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version)
    select before.user_id, @actor::text, 'connection.disconnected', before.user_id, before.client_id, before.version + 1
    from before where before.state <> 'disconnected'
)
select version + 1 as version from before;

-- name: ListGrantsOfUser :many
select grant_id from connections where user_id = @user_id;

-- name: DeleteGrants :exec
delete from grant_directory where grant_id = any (@grant_ids::uuid[]);

-- name: EndConnectionsOfUser :one
-- Before the user is deleted, in one transaction, which holds the user's row. What the user's clients were told of activity
-- goes as well; that the connection has ended is delivered yet.
with before as (
    select c.user_id, c.client_id, c.grant_id, c.version, c.state
    from connections c where c.user_id = @user_id
    for update
), ended as (
    update connections c
    set state = 'disconnected', version = c.version + 1, refresh_hash = null, last_read_at = null
    from before
    where c.user_id = @user_id and c.client_id = before.client_id and before.state <> 'disconnected'
), forgotten as (
    delete from webhook_events e where e.user_id = @user_id and e.type = 'activity.updated'
    returning e.event_id
), unqueued as (
    delete from webhook_queue where event_id in (select forgotten.event_id from forgotten)
), told as (
    insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
    select before.user_id, before.client_id, 'connection.revoked', before.grant_id, before.version, 'account_deleted'
    from before join webhook_endpoints w on w.client_id = before.client_id
    where before.state <> 'disconnected'
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select before.user_id, @actor::text, 'connection.disconnected', before.user_id, before.client_id, before.version + 1,
        jsonb_build_object('reason', 'account_deleted')
    from before where before.state <> 'disconnected'
)
select count(*) from before where state <> 'disconnected';

-- name: EndConnectionsOfOffboarded :execrows
-- Some of the connections of a client that was offboarded, or of any that was: there is nobody left to be told.
with chosen as (
    select c.user_id, c.client_id from connections c
    join clients cl on cl.client_id = c.client_id
    where c.state <> 'disconnected' and cl.status = 'offboarded'
        and (sqlc.narg(client_id)::uuid is null or c.client_id = sqlc.narg(client_id))
    limit @max_rows
), ended as (
    update connections c
    set state = 'disconnected', version = c.version + 1, refresh_hash = null, last_read_at = null
    from chosen
    where c.user_id = chosen.user_id and c.client_id = chosen.client_id and c.state <> 'disconnected'
    returning c.user_id, c.client_id, c.version
)
insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
select ended.user_id, @actor::text, 'connection.disconnected', ended.user_id, ended.client_id, ended.version,
    jsonb_build_object('reason', 'client_offboarded')
from ended;

-- Everything that an activity read needs to know of the bearer of an access token (5.2), in one round trip. Where it is an
-- hour since that was noted, it is to be noted that the client reads (NoteRead).
-- name: AuthenticateAccess :one
select c.grant_id, c.scopes, c.history_from, u.registered_on,
    cl.requests_per_minute, cl.burst, cl.concurrent_reads, connect_now()::timestamptz as now,
    ((c.last_read_at > connect_now() - interval '1 hour') is not true)::boolean as to_be_noted
from connections c
join clients cl on cl.client_id = c.client_id
join users u on u.user_id = c.user_id
where c.user_id = @user_id and c.client_id = @client_id and c.version = @version
    and c.state = 'authorized' and c.refresh_deadline > connect_now()
    and @expires_at::timestamptz > connect_now() and cl.status = 'active'
    and not exists (select 1 from revoked_access_tokens r
        where r.user_id = @user_id and r.token_id = @token_id);

-- Why AuthenticateAccess found no row. It has none itself where the user is deleted.
-- name: RefuseAccess :one
select (case
    when @expires_at::timestamptz <= connect_now() then 'the access token has expired'
    when c.version <> @version then 'the access token is of an earlier version of the connection'
    when c.state <> 'authorized' then 'the connection is ' || c.state
    when c.refresh_deadline <= connect_now() then 'the connection has lapsed: it was not refreshed in time'
    when cl.status <> 'active' then 'the client is not active'
    when exists (select 1 from revoked_access_tokens r
        where r.user_id = @user_id and r.token_id = @token_id) then 'the access token was revoked'
    else 'the access token was not valid a moment ago'
end)::text as reason
from connections c
join clients cl on cl.client_id = c.client_id
where c.user_id = @user_id and c.client_id = @client_id;

-- A connection that something acts on just now is noted by the next read.
-- name: NoteRead :exec
update connections set last_read_at = connect_now()
where connections.user_id = @user_id and connections.client_id = @client_id and (user_id, client_id) in (
    select c.user_id, c.client_id from connections c
    where c.user_id = @user_id and c.client_id = @client_id and c.version = @version
    for no key update skip locked);

-- name: SweepRevokedAccessTokens :execrows
delete from revoked_access_tokens where (user_id, token_id) in (
    select user_id, token_id from revoked_access_tokens where expires_at <= connect_now() limit 50000
);
