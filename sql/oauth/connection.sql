-- Connections and their credentials. Every statement that changes a connection is in this file. Races are settled here: each act is one statement that
-- says under which state, version and generation it may happen, so that of many at once one finds it so.
--
-- The acts of a client authenticate it, too: they happen only for an active client whose secret has this hash. An act that
-- did nothing is explained by a second statement (RefuseRefresh, AuthenticateClient). What is certain to fail, as a code
-- that was used or a token of an older generation, is found out before anything is locked.

-- The secret is random, 256 bits: that two hashes of it are compared, and how fast, tells nothing.
-- name: AuthenticateClient :one
select exists (
    select from clients where client_id = @client_id and secret_hash = @secret_hash and status = 'active'
);

-- The code exchange (specification 3.1, 4.3). The version that the code was issued under must be the present one, and
-- goes up by one: of all codes in flight the first exchanged wins, and a used code is one of an older version. The
-- locks settle the race with the deletion of the user and with changes of the client: whichever ends all connections
-- has ended this one, or has already happened.
-- name: AuthorizeConnection :one
with authorized as (
    insert into connections as c (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
        refresh_generation, refresh_hash, refresh_deadline)
    select u.user_id, cl.client_id, @new_grant_id, 1 + @code_version::bigint, 'authorized', @scopes::scope_set,
        @consent_day::date, connect_now(), 1, @refresh_hash::bytea, connect_now() + @inactivity::interval
    from users u, clients cl
    where u.user_id = @user_id and cl.client_id = @client_id
        and @code_expires_at::timestamptz > connect_now()
        and cl.status = 'active' and cl.callback_url = @redirect_uri and cl.scopes & @scopes = @scopes
        and cl.secret_hash = @secret_hash
        and coalesce((select old.version from connections old
            where old.user_id = @user_id and old.client_id = @client_id), 0) = @code_version
    for share of cl for key share of u
    on conflict (user_id, client_id) do update
    set version = c.version + 1,
        state = 'authorized',
        scopes = excluded.scopes,
        history_from = case c.state when 'disconnected' then excluded.history_from else c.history_from end,
        authorized_at = excluded.authorized_at,
        refresh_generation = 1,
        refresh_hash = excluded.refresh_hash,
        refresh_deadline = excluded.refresh_deadline
    where c.version = @code_version and (c.state = 'disconnected' or c.scopes = excluded.scopes)
    returning c.grant_id, c.user_id, c.client_id, c.version, c.scopes, c.history_from
), listed as (
    insert into grant_directory (grant_id, user_id, client_id)
    select grant_id, user_id, client_id from authorized
    on conflict (user_id, client_id) do nothing
), noted as (
    insert into audit_events (actor, action, client_id, user_hash, connection_version, detail)
    select 'client', 'connection.authorized', client_id, audit_user(user_id), version,
        jsonb_build_object('scopes', scope_text(scopes))
    from authorized
)
select grant_id, version, scopes, history_from, connect_now()::timestamptz as now from authorized;

-- The refresh (3.2, 4.4): one conditional update of one row.
-- name: RotateRefreshToken :one
update connections c
set refresh_generation = c.refresh_generation + 1,
    refresh_hash = @new_hash,
    refresh_deadline = connect_now() + @inactivity::interval
from clients cl
where c.user_id = @user_id and c.client_id = @client_id and cl.client_id = c.client_id
    and c.version = @version and c.state = 'authorized' and c.refresh_deadline > connect_now()
    and c.refresh_generation = @generation and c.refresh_hash = @presented_hash
    and cl.status = 'active' and cl.scopes & c.scopes = c.scopes and cl.secret_hash = @secret_hash
returning c.grant_id, c.version, c.scopes, c.history_from, connect_now()::timestamptz as now;

-- Whatever ends a connection tells the client, in the same statement, if it wants to know (section 6). The event names the
-- version whose credentials stopped working.

-- Why a refresh did nothing: no row where the client is not who it says. A token that was current before is presented
-- again: the family ends, also the token issued a moment ago (3.2).
-- name: RefuseRefresh :one
with client as (
    select client_id from clients where client_id = @client_id and secret_hash = @secret_hash and status = 'active'
), revoked as (
    update connections c
    set state = 'revoked', refresh_hash = null
    from client
    where c.user_id = @user_id and c.client_id = client.client_id and c.version = @version and c.state = 'authorized'
        and c.refresh_generation > @generation
    returning c.user_id, c.client_id, c.grant_id, c.version
), told as (
    insert into webhook_events (client_id, type, grant_id, connection_version, reason)
    select revoked.client_id, 'connection.revoked', revoked.grant_id, revoked.version, 'refresh_token_replayed'
    from revoked join webhook_endpoints w on w.client_id = revoked.client_id
), noted as (
    insert into audit_events (actor, action, client_id, user_hash, connection_version, detail)
    select 'client', 'connection.revoked', revoked.client_id, audit_user(revoked.user_id), revoked.version,
        jsonb_build_object('reason', 'refresh_token_replayed')
    from revoked
)
select exists (select from revoked) as replayed,
    exists (select from connections c
        where c.user_id = @user_id and c.client_id = @client_id and c.version = @version and c.state = 'authorized'
            and c.refresh_deadline <= connect_now()) as lapsed
from client;

-- name: RevokeConnection :execrows
with revoked as (
    update connections c
    set state = 'revoked', refresh_hash = null
    from clients cl
    where c.user_id = @user_id and c.client_id = @client_id and c.version = @version and c.state = 'authorized'
        and cl.client_id = c.client_id and cl.secret_hash = @secret_hash and cl.status = 'active'
    returning c.user_id, c.client_id, c.grant_id, c.version
), told as (
    insert into webhook_events (client_id, type, grant_id, connection_version, reason)
    select revoked.client_id, 'connection.revoked', revoked.grant_id, revoked.version, 'refresh_token_revoked'
    from revoked join webhook_endpoints w on w.client_id = revoked.client_id
)
insert into audit_events (actor, action, client_id, user_hash, connection_version, detail)
select 'client', 'connection.revoked', revoked.client_id, audit_user(revoked.user_id), revoked.version,
    jsonb_build_object('reason', 'refresh_token_revoked')
from revoked;

-- name: RevokeAccessToken :execrows
with revoked as (
    insert into revoked_access_tokens (user_id, token_id, expires_at)
    select u.user_id, @token_id, @expires_at::timestamptz from users u, clients cl
    where u.user_id = @user_id and @expires_at::timestamptz > connect_now() and cl.client_id = @client_id
        and cl.secret_hash = @secret_hash and cl.status = 'active'
    for key share of u
    on conflict do nothing
    returning user_id
)
insert into audit_events (actor, action, client_id, user_hash, connection_version)
select 'client', 'access_token.revoked', @client_id::uuid, audit_user(revoked.user_id), @version::bigint
from revoked;

-- Whose grant it is: nobody's where the client has no such grant, and no row where the client is not who it says.
-- name: FindGrant :one
select g.user_id
from clients cl
left join grant_directory g on g.grant_id = @grant_id and g.client_id = cl.client_id
where cl.client_id = @client_id and cl.secret_hash = @secret_hash and cl.status = 'active';

-- The version goes up even where the connection is disconnected already: a code may be in flight that was issued
-- under the present version, and nothing works after a disconnect has answered (4.10).
-- name: DisconnectConnection :execrows
with before as (
    select c.user_id, c.client_id, c.grant_id, c.version, c.state
    from connections c where c.user_id = @user_id and c.client_id = @client_id
    for update
), ended as (
    update connections c
    set state = 'disconnected', version = c.version + 1, refresh_hash = null, last_read_at = null
    from before
    where c.user_id = before.user_id and c.client_id = before.client_id
    returning c.user_id, c.client_id, c.version
), told as (
    insert into webhook_events (client_id, type, grant_id, connection_version, reason)
    select before.client_id, 'connection.revoked', before.grant_id, before.version,
        case @actor::text when 'client' then 'client_disconnected' else 'user_disconnected' end
    from before join webhook_endpoints w on w.client_id = before.client_id
    where before.state <> 'disconnected'
)
insert into audit_events (actor, action, client_id, user_hash, connection_version)
select @actor, 'connection.disconnected', ended.client_id, audit_user(ended.user_id), ended.version
from ended;

-- name: EndConnectionsOfUser :execrows
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
    where c.user_id = before.user_id and c.client_id = before.client_id and before.state <> 'disconnected'
    returning c.user_id, c.client_id, c.version
), forgotten as (
    delete from webhook_events e using before where e.grant_id = before.grant_id and e.type = 'activity.updated'
), told as (
    insert into webhook_events (client_id, type, grant_id, connection_version, reason)
    select before.client_id, 'connection.revoked', before.grant_id, before.version, 'account_deleted'
    from before join webhook_endpoints w on w.client_id = before.client_id
    where before.state <> 'disconnected'
)
insert into audit_events (actor, action, client_id, user_hash, connection_version, detail)
select 'operator', 'connection.disconnected', ended.client_id, audit_user(ended.user_id), ended.version,
    jsonb_build_object('reason', 'account_deleted')
from ended;

-- name: EndConnectionsOfClient :execrows
-- Once the client is offboarded, in one transaction: there is nobody left to be told.
with ended as (
    update connections c
    set state = 'disconnected', version = c.version + 1, refresh_hash = null, last_read_at = null
    where c.client_id = @client_id and c.state <> 'disconnected'
    returning c.user_id, c.client_id, c.version
)
insert into audit_events (actor, action, client_id, user_hash, connection_version, detail)
select 'operator', 'connection.disconnected', ended.client_id, audit_user(ended.user_id), ended.version,
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
    and not exists (select from revoked_access_tokens r
        where r.user_id = @user_id and r.token_id = @token_id);

-- A connection that something acts on just now is noted by the next read.
-- name: NoteRead :exec
update connections set last_read_at = connect_now()
where (user_id, client_id) in (
    select c.user_id, c.client_id from connections c
    where c.user_id = @user_id and c.client_id = @client_id and c.version = @version
    for no key update skip locked);

-- name: SweepRevokedAccessTokens :execrows
delete from revoked_access_tokens where (user_id, token_id) in (
    select user_id, token_id from revoked_access_tokens where expires_at <= connect_now() limit 50000 for update skip locked
);
