-- Connections and their credentials. Every statement that changes a connection is in this file. Each act is one statement that names
-- the state, version and generation that it requires, so exactly one of several concurrent acts succeeds.
--
-- The acts of a client also authenticate it: they require an active client whose secret has the given hash. If an act changed
-- nothing, a second statement (RefuseExchange, RefuseRefresh) finds the reason. It reads client and connection in one snapshot. If it
-- finds that the act would succeed by now, because the client was enabled in between, the act is repeated.
--
-- A statement that changes a connection also inserts its event and its entry of the audit log. These inserts join the user's row and no
-- other table, and take new ids from "fresh", because a Citus cluster then sends them to the user's node alone. Otherwise it would send the
-- changed rows to every node, and fail while one is away (docs/scaling.md).

-- name: AddConnection :execrows
-- The first consent of a user to a client inserts the row that all later acts change, as version 0. Of two concurrent ones, one does.
insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
    refresh_generation, refresh_deadline, browser, browser_version)
values (@user_id, @client_id, @grant_id, 0, 'disconnected', @scopes, @history_from, connect_now(), 1, connect_now(), @browser, 0)
on conflict do nothing;

-- name: NoteBrowser :exec
-- In which the user has just allowed a connection that has a row.
update connections set browser = @browser, browser_version = version where user_id = @user_id and client_id = @client_id;

-- name: AuthorizeConnection :one
-- The code exchange (specification 3.1, 4.3). The code must name the current version, which the exchange raises by one. So the first
-- of several outstanding codes wins, and a used code names an older version. An exchange that started before its client was
-- offboarded may commit afterwards. EndConnectionsOfOffboarded finds its connection. The user gets a receipt unless the connection could read
-- before: then the exchange only renews it. before is read from the locked row: a join would see the row of before a wait. The lock waits for
-- no batch or import that has noted a change for the connection, here and in DisconnectConnection.
with before as (
    select c.client_id, c.state, c.refresh_deadline
    from connections c
    where c.user_id = @user_id and c.client_id = @client_id
        and c.version = @code_version::bigint and (c.state = 'disconnected' or c.scopes = @scopes::scope_set)
        and @code_expires_at::timestamptz > connect_now()
    for no key update
), authorized as (
    update connections c
    set version = c.version + 1,
        state = 'authorized',
        scopes = @scopes::scope_set,
        history_from = @history_from::date,
        authorized_at = connect_now(),
        refresh_generation = 1,
        refresh_hash = @refresh_hash::bytea,
        refresh_deadline = connect_now() + @inactivity::interval
    from clients cl, before
    where c.user_id = @user_id and c.client_id = @client_id and cl.client_id = c.client_id and c.client_id = before.client_id
        and is_registered_for(@redirect_uri, @scopes::scope_set, cl.status, cl.callback_url, cl.scopes)
        and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz)
        and is_believed(@expected::pg_catalog.timestamptz)
    returning c.grant_id, c.user_id, c.client_id, c.version, c.scopes, c.history_from, c.authorized_at,
        before.state as former_state, before.refresh_deadline as former_deadline
), fresh as materialized (
    select nextval('audit_log_id_seq') as entry_id, gen_random_uuid() as notice_id
), endpoint as materialized (
    select client_id, gen_random_uuid() as event_id from webhook_endpoints where client_id = operator_id()
), notified as (
    insert into webhook_events (user_id, event_id, client_id, type, about_client_id, grant_id, connection_version, datasets)
    select u.user_id, endpoint.event_id, endpoint.client_id, 'connection.authorized', authorized.client_id, authorized.grant_id, authorized.version,
        authorized.scopes
    from authorized cross join endpoint join users u on u.user_id = @user_id
), noticed as (
    insert into notices (recipient, notice_id, kind, data)
    select u.user_id, fresh.notice_id, 'connection_begun', jsonb_build_object('client_id', authorized.client_id, 'version', authorized.version)
    from authorized cross join fresh join users u on u.user_id = @user_id
    where not is_authorized(authorized.former_state, authorized.former_deadline)
), audited as (
    insert into audit_log (subject, id, actor, action, user_id, client_id, connection_version, detail)
    overriding system value
    select u.user_id, fresh.entry_id, 'client', 'connection.authorized', authorized.user_id, authorized.client_id, authorized.version,
        jsonb_build_object('scopes', authorized.scopes)
    from authorized cross join fresh join users u on u.user_id = @user_id
)
select grant_id, version, scopes, history_from, authorized_at from authorized;

-- name: RefuseExchange :one
-- Why an exchange changed nothing. There is no row if the client's credentials are wrong. possible: the exchange would succeed now.
select exists (
    select 1 from connections c
    where c.user_id = @user_id and c.client_id = @client_id and c.version = @code_version::bigint
        and (c.state = 'disconnected' or c.scopes = @scopes::scope_set)
        and @code_expires_at::timestamptz > connect_now()
        and is_registered_for(@redirect_uri, @scopes::scope_set, cl.status, cl.callback_url, cl.scopes)
) as possible, is_believed(@expected::pg_catalog.timestamptz)::boolean as believed, (case
    when exists (select 1 from connections c
        where c.user_id = @user_id and c.client_id = @client_id and c.version < @code_version::bigint)
        then 'code is of a later version of the connection than the database, which has lost commits'
    when not exists (select 1 from connections c
        where c.user_id = @user_id and c.client_id = @client_id and c.version = @code_version::bigint)
        then 'code was used, or another code was, or the user has disconnected or is deleted'
    when @code_expires_at::timestamptz <= connect_now() then 'code has expired'
    when cl.callback_url <> @redirect_uri then 'the registered callback has changed since the authorization request'
    when cl.scopes & @scopes::scope_set <> @scopes::scope_set then 'the client may no longer have all scopes of the code'
    else 'the connection has other scopes than the code'
end)::text as reason
from clients cl
where cl.client_id = @client_id and is_active(cl.status)
    and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz);

-- name: RotateRefreshToken :one
-- The refresh (3.2, 4.4): one conditional update of one row. The time of the refresh is the new deadline minus the inactivity.
update connections c
set refresh_generation = c.refresh_generation + 1,
    refresh_hash = @new_hash,
    refresh_deadline = connect_now() + @inactivity::interval
from clients cl
where c.user_id = @user_id and c.client_id = @client_id and cl.client_id = c.client_id
    and c.version = @version and is_authorized(c.state, c.refresh_deadline)
    and c.refresh_generation = @generation and c.refresh_hash = @presented_hash
    and is_active(cl.status) and cl.scopes & c.scopes = c.scopes
    and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz)
    and is_believed(@expected::pg_catalog.timestamptz)
returning c.grant_id, c.version, c.scopes, c.history_from, c.refresh_deadline;

-- name: RecoverConnection :one
-- The refresh with a token that proves lost commits (is_ahead): it moves the row to what the token says, and rotates the token.
with recovered as (
    update connections c
    set version = @version,
        scopes = @scopes::scope_set,
        history_from = @history_from::date,
        authorized_at = case when c.version = @version then c.authorized_at else begun.at end,
        refresh_generation = 1 + @generation::bigint,
        refresh_hash = @new_hash::bytea,
        refresh_deadline = connect_now() + @inactivity::interval
    from clients cl, (select least(@issued_at::timestamptz, connect_now()) as at) begun -- Citus refuses the call within "case"
    where c.user_id = @user_id and c.client_id = @client_id and cl.client_id = c.client_id
        and is_ahead(@version::bigint, @generation::bigint, @issued_at::timestamptz, @inactivity::interval,
            c.state, c.version, c.refresh_generation, c.authorized_at)
        and is_active(cl.status) and cl.scopes & @scopes::scope_set = @scopes::scope_set
        and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz)
        and is_believed(@expected::pg_catalog.timestamptz)
    returning c.user_id, c.client_id, c.grant_id, c.version, c.scopes, c.history_from, c.refresh_deadline
), fresh as materialized (
    select nextval('audit_log_id_seq') as entry_id
), audited as (
    insert into audit_log (subject, id, actor, action, user_id, client_id, connection_version, detail)
    overriding system value
    select u.user_id, fresh.entry_id, 'client', 'connection.recovered', recovered.user_id, recovered.client_id, recovered.version,
        jsonb_build_object('scopes', recovered.scopes)
    from recovered cross join fresh join users u on u.user_id = @user_id
)
select grant_id, version, scopes, history_from, refresh_deadline from recovered;

-- The following statements end connections. Each one also writes the client's event if it has a webhook (specification section 6), and the
-- operator's if there is a webhook of the operator.
-- The event names the version whose credentials stopped working. Each end that is not the user's own also writes the user's receipt, unless
-- the user knows: the connection had ended before, or the user was told that it has lapsed.

-- name: RefuseRefresh :one
-- Why a refresh changed nothing. There is no row if the client's credentials are wrong. If the token was current before, or is another
-- one of the current generation, this is a replay: it revokes the whole family, including a token that was issued a moment ago (3.2),
-- even if the connection has lapsed. possible: the refresh would succeed now. recoverable: RecoverConnection would.
with client as (
    select client_id, scopes from clients
    where client_id = @client_id and is_active(status)
        and is_secret_of(@secret_hash, secret_hash, previous_secret_hash, previous_secret_until, @expected::pg_catalog.timestamptz)
), revoked as (
    update connections c
    set state = 'revoked', refresh_hash = null
    from client
    where c.user_id = @user_id and c.client_id = @client_id and c.client_id = client.client_id and c.version = @version and c.state = 'authorized'
        and (c.refresh_generation > @generation or c.refresh_generation = @generation and c.refresh_hash <> @presented_hash)
    returning c.user_id, c.client_id, c.grant_id, c.version, c.lapse_told is not distinct from c.refresh_deadline as lapse_told
), fresh as materialized (
    select nextval('audit_log_id_seq') as entry_id, gen_random_uuid() as notice_id
), endpoint as materialized (
    select client_id, gen_random_uuid() as event_id, case when client_id = @client_id then 'connection.revoked' else 'connection.ended' end as type
    from webhook_endpoints where client_id in (@client_id, operator_id())
), notified as (
    insert into webhook_events (user_id, event_id, client_id, type, about_client_id, grant_id, connection_version, reason)
    select u.user_id, endpoint.event_id, endpoint.client_id, endpoint.type, nullif(revoked.client_id, endpoint.client_id), revoked.grant_id,
        revoked.version, 'refresh_token_replayed'
    from revoked cross join endpoint join users u on u.user_id = @user_id
), noticed as (
    insert into notices (recipient, notice_id, kind, data)
    select u.user_id, fresh.notice_id, 'connection_ended', jsonb_build_object('client_id', revoked.client_id, 'by', 'replay')
    from revoked cross join fresh join users u on u.user_id = @user_id
    where not revoked.lapse_told
), audited as (
    insert into audit_log (subject, id, actor, action, user_id, client_id, connection_version, detail)
    overriding system value
    select u.user_id, fresh.entry_id, 'client', 'connection.revoked', revoked.user_id, revoked.client_id, revoked.version,
        jsonb_build_object('reason', 'refresh_token_replayed')
    from revoked cross join fresh join users u on u.user_id = @user_id
)
select exists (select 1 from revoked) as replayed,
    exists (select 1 from connections c
        where c.user_id = @user_id and c.client_id = @client_id and c.version = @version
            and connection_state(c.state, c.refresh_deadline) = 'lapsed') as lapsed,
    exists (select 1 from connections c
        where c.user_id = @user_id and c.client_id = @client_id and c.version = @version
            and is_authorized(c.state, c.refresh_deadline) and c.refresh_generation = @generation and c.refresh_hash = @presented_hash
            and client.scopes & c.scopes = c.scopes) as possible,
    exists (select 1 from connections c
        where c.user_id = @user_id and c.client_id = @client_id
            and is_ahead(@version, @generation, @issued_at::timestamptz, @inactivity::interval,
                c.state, c.version, c.refresh_generation, c.authorized_at)
            and client.scopes & @scopes::scope_set = @scopes::scope_set) as recoverable,
    is_believed(@expected::pg_catalog.timestamptz)::boolean as believed,
    coalesce((select c.grant_id from connections c where c.user_id = @user_id and c.client_id = @client_id),
        '00000000-0000-0000-0000-000000000000')::uuid as grant_id,
    coalesce((select case
            when c.version > @version then 'refresh_token is of an earlier version of the connection'
            when c.state <> 'authorized' then 'the connection is ' || c.state
            when client.scopes & c.scopes <> c.scopes then 'the client may no longer have all scopes of the connection'
            when (c.version, c.refresh_generation) < (@version, @generation::bigint)
                then 'refresh_token is later than the database, which has lost commits, and has lapsed or is of another history'
            else 'refresh_token is not the current one'
        end from connections c
        where c.user_id = @user_id and c.client_id = @client_id), 'the user is deleted')::text as reason
from client;

-- name: EndOfVersion :one
-- The first end of a version of a connection, and its time: replaced stands for the next authorization. No row: the audit log does not say.
select coalesce(connection_end(action, actor, detail), 'replaced')::text as reason, at
from audit_log
where subject = @user_id and client_id = @client_id::uuid
    and action in ('connection.revoked', 'connection.lapsed', 'connection.disconnected', 'connection.authorized')
    and connection_version - case when action in ('connection.disconnected', 'connection.authorized') then 1 else 0 end = @version::bigint
order by subject, client_id, at, id
limit 1;

-- name: RevokeConnection :one
-- There is no row if the client's credentials are wrong. The same is true of RevokeAccessToken. A token that proves lost commits moves
-- the row, so that no later one of its version can do so.
-- An ended row takes over a lost version of the token, which ReplayActs would begin.
with client as (
    select cl.client_id from clients cl
    where cl.client_id = @client_id and is_active(cl.status)
        and is_secret_of(@secret_hash, cl.secret_hash, cl.previous_secret_hash, cl.previous_secret_until, @expected::pg_catalog.timestamptz)
), revoked as (
    update connections c
    set state = 'revoked', refresh_hash = null, version = @version, scopes = @scopes::scope_set, history_from = @history_from::date
    from client
    where c.user_id = @user_id and c.client_id = @client_id and c.state = 'authorized' and c.client_id = client.client_id
        and (c.version = @version::bigint
            or is_ahead(@version::bigint, @generation::bigint, @issued_at::timestamptz, @inactivity::interval,
                c.state, c.version, c.refresh_generation, c.authorized_at))
    returning c.user_id, c.client_id, c.grant_id, c.version, c.lapse_told is not distinct from c.refresh_deadline as lapse_told
), passed as (
    update connections c
    set version = @version
    from client
    where c.user_id = @user_id and c.client_id = @client_id and c.state <> 'authorized' and c.client_id = client.client_id and c.version < @version::bigint
), fresh as materialized (
    select nextval('audit_log_id_seq') as entry_id, gen_random_uuid() as notice_id
), endpoint as materialized (
    select client_id, gen_random_uuid() as event_id, case when client_id = @client_id then 'connection.revoked' else 'connection.ended' end as type
    from webhook_endpoints where client_id in (@client_id, operator_id())
), notified as (
    insert into webhook_events (user_id, event_id, client_id, type, about_client_id, grant_id, connection_version, reason)
    select u.user_id, endpoint.event_id, endpoint.client_id, endpoint.type, nullif(revoked.client_id, endpoint.client_id), revoked.grant_id,
        revoked.version, 'refresh_token_revoked'
    from revoked cross join endpoint join users u on u.user_id = @user_id
), noticed as (
    insert into notices (recipient, notice_id, kind, data)
    select u.user_id, fresh.notice_id, 'connection_ended', jsonb_build_object('client_id', revoked.client_id, 'by', 'partner')
    from revoked cross join fresh join users u on u.user_id = @user_id
    where not revoked.lapse_told
), audited as (
    insert into audit_log (subject, id, actor, action, user_id, client_id, connection_version, detail)
    overriding system value
    select u.user_id, fresh.entry_id, 'client', 'connection.revoked', revoked.user_id, revoked.client_id, revoked.version,
        jsonb_build_object('reason', 'refresh_token_revoked')
    from revoked cross join fresh join users u on u.user_id = @user_id
)
select client_id from client;

-- name: DisconnectConnection :one
-- The version rises even if the connection is disconnected already: a code of the current version may be outstanding, and nothing may
-- work after a disconnect was answered (4.10). Such a repetition is not audited. of_version: the connection must have this version; null: any.
-- A client knows a grant of version 0 only from a first exchange that the database has lost, and that ReplayActs would begin.
with before as (
    select c.user_id, c.client_id, c.grant_id, c.version, c.state, c.lapse_told is not distinct from c.refresh_deadline as lapse_told
    from connections c where c.user_id = @user_id and c.client_id = @client_id
        and (sqlc.narg(of_version)::bigint is null or c.version = sqlc.narg(of_version)::bigint) and (c.version > 0 or @actor::text = 'client')
    for no key update
), ended as (
    update connections c
    set state = 'disconnected', version = c.version + 1, refresh_hash = null, last_read_at = null
    from before
    where c.user_id = @user_id and c.client_id = @client_id and c.client_id = before.client_id
), fresh as materialized (
    select nextval('audit_log_id_seq') as entry_id, gen_random_uuid() as notice_id
), endpoint as materialized (
    select client_id, gen_random_uuid() as event_id, case when client_id = @client_id then 'connection.revoked' else 'connection.ended' end as type
    from webhook_endpoints where client_id in (@client_id, operator_id())
), notified as (
    insert into webhook_events (user_id, event_id, client_id, type, about_client_id, grant_id, connection_version, reason)
    select u.user_id, endpoint.event_id, endpoint.client_id, endpoint.type, nullif(before.client_id, endpoint.client_id), before.grant_id,
        before.version, case
            when @actor::text = 'client' then 'client_disconnected'
            when @actor::text = 'user' or endpoint.client_id = before.client_id then 'user_disconnected'
            else 'operator_disconnected'
        end
    from before cross join endpoint join users u on u.user_id = @user_id
    where before.state <> 'disconnected'
), noticed as (
    insert into notices (recipient, notice_id, kind, data)
    select u.user_id, fresh.notice_id, 'connection_ended', jsonb_build_object('client_id', before.client_id, 'by',
        case when @actor::text = 'client' then 'partner' else 'operator' end)
    from before cross join fresh join users u on u.user_id = @user_id
    where before.state = 'authorized' and not before.lapse_told and @actor::text <> 'user'
), audited as (
    insert into audit_log (subject, id, actor, action, user_id, client_id, connection_version)
    overriding system value
    select u.user_id, fresh.entry_id, @actor::text, 'connection.disconnected', before.user_id, before.client_id, before.version + 1
    from before cross join fresh join users u on u.user_id = @user_id
    where before.state <> 'disconnected'
)
select version + 1 as version from before;

-- name: AwaitMerges :exec
-- Waits for merges of the user's changes, so that EndConnectionsOfUser finds their events. It locks the rows in their order (MergeWebhookChanges).
select 1 from webhook_changes where user_id = @user_id order by changed_at, change_id for update;

-- name: EndConnectionsOfUser :one
-- The first step of a user's deletion, whose transaction holds the lock of the user's row. Events about the user's activity are
-- deleted. The events about the end of the connections are still delivered. until 1.3.0: programs of 1.0.0 have queued events in webhook_queue.
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
), notified as (
    insert into webhook_events (user_id, client_id, type, about_client_id, grant_id, connection_version, reason)
    select before.user_id, w.client_id, case when w.client_id = before.client_id then 'connection.revoked' else 'connection.ended' end,
        nullif(before.client_id, w.client_id), before.grant_id, before.version, 'account_deleted'
    from before join webhook_endpoints w on w.client_id in (before.client_id, operator_id())
    where before.state <> 'disconnected'
), audited as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select before.user_id, @actor::text, 'connection.disconnected', before.user_id, before.client_id, before.version + 1,
        jsonb_build_object('reason', 'account_deleted')
    from before where before.state <> 'disconnected'
)
select count(*) from before where state <> 'disconnected';

-- name: AuditTokensRevoked :one
-- Begins the revocation of all tokens of a client. An unknown client gives no row.
with client as (
    select cl.client_id, cl.status from clients cl where cl.client_id = @client_id
), audited as (
    insert into audit_log (subject, actor, action, client_id)
    select client.client_id, @actor::text, 'client.tokens_revoked', client.client_id from client where client.status <> 'offboarded'
)
select client.status from client;

-- name: RevokeConnectionsOfClient :one
-- Revokes those connections of a client that are authorized among some that have not ended, in the order of connections_open, so that it reads no
-- others however many there are.
with chosen as (
    select c.user_id, c.client_id from connections c
    where c.client_id = @client_id and c.state <> 'disconnected' and c.user_id > @after_user
    order by c.user_id
    limit @max_rows
), revoked as (
    update connections c
    set state = 'revoked', refresh_hash = null
    from chosen
    where c.user_id = chosen.user_id and c.client_id = chosen.client_id and c.state = 'authorized'
    returning c.user_id, c.client_id, c.grant_id, c.version, c.lapse_told is not distinct from c.refresh_deadline as lapse_told
), noticed as (
    insert into notices (recipient, kind, data)
    select revoked.user_id, 'connection_ended', jsonb_build_object('client_id', revoked.client_id, 'by', 'operator')
    from revoked where not revoked.lapse_told
), notified as (
    insert into webhook_events (user_id, client_id, type, about_client_id, grant_id, connection_version, reason)
    select revoked.user_id, w.client_id, case when w.client_id = revoked.client_id then 'connection.revoked' else 'connection.ended' end,
        nullif(revoked.client_id, w.client_id), revoked.grant_id, revoked.version,
        case when w.client_id = revoked.client_id then 'refresh_token_revoked' else 'operator_revoked' end
    from revoked join webhook_endpoints w on w.client_id in (revoked.client_id, operator_id())
), audited as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select revoked.user_id, @actor::text, 'connection.revoked', revoked.user_id, revoked.client_id, revoked.version,
        jsonb_build_object('reason', 'refresh_token_revoked', 'all', true)
    from revoked
)
select count(*) as chosen, count(revoked.user_id) as revoked, coalesce(max(chosen.user_id::text collate "C")::uuid, @after_user)::uuid as last_user
from chosen left join revoked using (user_id, client_id);

-- name: ListOffboarded :many
select client_id from clients where status = 'offboarded' order by client_id;

-- name: EndConnectionsOfOffboarded :one
-- Ends a part of the connections of an offboarded client. Offboarded clients receive no events. A connection that has
-- changed since it was chosen is left to the next part, because its former state is not known. The order is that of connections_open:
-- without it PostgreSQL expects to find the connections soon among all others, and reads the whole table if there are none.
with chosen as (
    select c.user_id, c.client_id, c.state from connections c
    join clients cl on cl.client_id = c.client_id
    where c.client_id = @client_id and c.state <> 'disconnected' and cl.status = 'offboarded'
    order by c.user_id
    limit @max_rows
), ended as (
    update connections c
    set state = 'disconnected', version = c.version + 1, refresh_hash = null, last_read_at = null
    from chosen
    where c.user_id = chosen.user_id and c.client_id = chosen.client_id and c.state = chosen.state
    returning c.user_id, c.client_id, c.grant_id, c.version, chosen.state = 'authorized' and c.lapse_told is distinct from c.refresh_deadline as untold
), notified as (
    insert into webhook_events (user_id, client_id, type, about_client_id, grant_id, connection_version, reason)
    select ended.user_id, w.client_id, 'connection.ended', ended.client_id, ended.grant_id, ended.version - 1, 'client_offboarded'
    from ended join webhook_endpoints w on w.client_id = operator_id()
), noticed as (
    insert into notices (recipient, kind, data)
    select ended.user_id, 'connection_ended', jsonb_build_object('client_id', ended.client_id, 'by', 'operator')
    from ended where ended.untold
), audited as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select ended.user_id, @actor::text, 'connection.disconnected', ended.user_id, ended.client_id, ended.version,
        jsonb_build_object('reason', 'client_offboarded')
    from ended
)
select count(*) as chosen, count(ended.user_id) as ended from chosen left join ended using (user_id, client_id);

-- name: FindLapsed :many
-- Connections that have lapsed, not long ago, and of which nobody was told. It reads the whole table, which has no index of deadlines, so that a
-- refresh stays cheap, and it locks nothing. A generation of 0 waits for its token (ReplayActs). The subquery reads the clock once instead of once a row.
select c.user_id, c.client_id, c.refresh_deadline from connections c
where connection_state(c.state, c.refresh_deadline, (select connect_now())) = 'lapsed' and c.lapse_told is distinct from c.refresh_deadline
    and connection_state(c.state, c.refresh_deadline, @since::timestamptz) <> 'lapsed' and c.refresh_generation > 0
    and is_believed(@expected::pg_catalog.timestamptz)
limit @max_rows;

-- name: TellLapses :exec
-- Tells users, the operator and the audit log that some connections have lapsed, unless they have changed since.
with chosen as (
    select unnest(@user_ids::uuid[]) as user_id, unnest(@client_ids::uuid[]) as client_id, unnest(@deadlines::timestamptz[]) as refresh_deadline
), lapsed as (
    update connections c
    set lapse_told = c.refresh_deadline
    from chosen
    where c.user_id = chosen.user_id and c.client_id = chosen.client_id and c.lapse_told is distinct from c.refresh_deadline
        and c.state = 'authorized' and c.refresh_deadline = chosen.refresh_deadline
    returning c.user_id, c.client_id, c.grant_id, c.version, c.refresh_deadline
), notified as (
    insert into webhook_events (user_id, client_id, type, about_client_id, grant_id, connection_version, reason)
    select lapsed.user_id, w.client_id, 'connection.ended', lapsed.client_id, lapsed.grant_id, lapsed.version, 'lapsed'
    from lapsed join webhook_endpoints w on w.client_id = operator_id()
), audited as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select lapsed.user_id, @actor::text, 'connection.lapsed', lapsed.user_id, lapsed.client_id, lapsed.version,
        jsonb_build_object('lapsed_at', lapsed.refresh_deadline)
    from lapsed
)
insert into notices (recipient, kind, data)
select lapsed.user_id, 'connection_ended', jsonb_build_object('client_id', lapsed.client_id, 'by', 'lapse') from lapsed;

-- name: RecordRead :one
-- Records that the client read what the scopes grant, unless it is recorded that it did so in this hour (UTC) or later. It skips a row that
-- another act has locked, and one of another version. The results are whether it is the client's first recorded read of the user's activity on
-- this day (UTC), and the first one of any client, also if connections have ended since: the times of each dataset stay.
with before as (
    select c.user_id, c.client_id, (greatest(c.last_read_at, c.steps_read_at, c.cycling_read_at, c.rides_read_at)
            >= date_trunc('day', @at::timestamptz, 'UTC')) is not true as first_of_client,
        not exists (select 1 from connections o
            where o.user_id = @user_id and greatest(o.last_read_at, o.steps_read_at, o.cycling_read_at, o.rides_read_at)
                >= date_trunc('day', @at::timestamptz, 'UTC')) as first_of_user
    from connections c
    where c.user_id = @user_id and c.client_id = @client_id and c.version = @version
        and ((c.last_read_at >= date_trunc('hour', @at::timestamptz, 'UTC')) is not true
            or @scopes::smallint & 1 > 0 and (c.steps_read_at >= date_trunc('hour', @at::timestamptz, 'UTC')) is not true
            or @scopes::smallint & 2 > 0 and (c.cycling_read_at >= date_trunc('hour', @at::timestamptz, 'UTC')) is not true
            or @scopes::smallint & 4 > 0 and (c.rides_read_at >= date_trunc('hour', @at::timestamptz, 'UTC')) is not true)
    for no key update of c skip locked
)
update connections c
set last_read_at = greatest(c.last_read_at, @at::timestamptz),
    -- The times of a connection that has ended are not those of the next one.
    steps_read_at = greatest(case when c.last_read_at is not null then c.steps_read_at end,
        case when @scopes::smallint & 1 > 0 then @at::timestamptz end),
    cycling_read_at = greatest(case when c.last_read_at is not null then c.cycling_read_at end,
        case when @scopes::smallint & 2 > 0 then @at::timestamptz end),
    rides_read_at = greatest(case when c.last_read_at is not null then c.rides_read_at end,
        case when @scopes::smallint & 4 > 0 then @at::timestamptz end)
from before
where c.user_id = @user_id and c.client_id = @client_id and c.client_id = before.client_id
returning before.first_of_client::boolean as first_of_client, before.first_of_user::boolean as first_of_user;

-- name: ListTimezones :many
select user_id, timezone from users where user_id = any (@user_ids::uuid[]);

-- name: ListTokensRevoked :many
-- When all tokens of each client were last revoked (AuditTokensRevoked).
select subject as client_id, max(at)::timestamptz as at from audit_log
where subject = any (@client_ids::uuid[]) and action = 'client.tokens_revoked' group by subject;

-- name: ReplayActs :many
-- Each act is the last one on its connection, as the audit log of a database with later commits has it. An act that ended the
-- connection ends it, unless it has been authorized since. An authorization moves the connection to its version, where it has lapsed until its
-- refresh token comes (is_ahead), unless this database's own log has a later act, which may be dated wrong: authorizations are not. days are
-- the users' calendar days of the acts. The rows are the numbers of connections that changed, by act. An offboarded client gets no event.
with given as (
    select unnest(@user_ids::uuid[]) as user_id, unnest(@client_ids::uuid[]) as client_id, unnest(@versions::bigint[]) as version,
        unnest(@actions::text[]) as action, unnest(@actors::text[]) as actor, unnest(@reasons::text[]) as reason,
        unnest(@scopes::smallint[]) as scopes, unnest(@instants::timestamptz[]) as acted_at, unnest(@days::date[]) as day,
        unnest(@befores::timestamptz[]) as authorized_before
), before as (
    select c.user_id, c.client_id, c.grant_id, c.state as former_state, c.version as former_version, given.version, given.action,
        given.actor, given.reason, given.acted_at, given.action = 'connection.authorized' as begins,
        case when given.action = 'connection.authorized' then 'authorized'
            -- The consent of a revoked connection remains, if no disconnect can have been lost.
            when given.action = 'connection.revoked' and c.state <> 'disconnected' and given.version <= c.version + 1 then 'revoked'
            else 'disconnected'
        end as state,
        case when given.action = 'connection.authorized' then given.scopes else c.scopes end as scopes,
        case when given.action = 'connection.authorized' and (c.state = 'disconnected' or given.version > c.version + 1) then given.day
            else c.history_from end as history_from
    from given
    join connections c on c.user_id = given.user_id and c.client_id = given.client_id
    join users u on u.user_id = c.user_id
    where case when given.action = 'connection.authorized'
        then c.version < given.version and not exists (select 1 from audit_log a
            where a.subject = c.user_id and a.client_id = c.client_id and a.at > given.acted_at
                and a.action in ('connection.authorized', 'connection.revoked', 'connection.disconnected'))
        else (c.version < given.version or c.version = given.version and c.state = 'authorized') and c.authorized_at < given.authorized_before end
), replayed as (
    update connections c
    set version = before.version,
        state = before.state,
        scopes = before.scopes,
        history_from = before.history_from,
        authorized_at = case when before.begins then before.acted_at else c.authorized_at end,
        refresh_generation = case when before.begins then 0 else c.refresh_generation end,
        refresh_hash = case when before.begins then sha256('') end,
        refresh_deadline = case when before.begins then before.acted_at else c.refresh_deadline end,
        last_read_at = case when before.state = 'disconnected' then null else c.last_read_at end
    from before
    where c.user_id = before.user_id and c.client_id = before.client_id and c.version = before.former_version
        and c.state = before.former_state
    returning c.user_id, c.client_id, c.grant_id, c.scopes, before.action, before.actor, before.reason, before.version, before.acted_at, before.begins,
        before.former_state
), notified as (
    insert into webhook_events (user_id, client_id, type, about_client_id, grant_id, connection_version, reason, datasets)
    select replayed.user_id, w.client_id, case
            when replayed.begins then 'connection.authorized'
            when w.client_id = replayed.client_id then 'connection.revoked'
            else 'connection.ended'
        end, nullif(replayed.client_id, w.client_id), replayed.grant_id,
        replayed.version - case when replayed.action = 'connection.disconnected' then 1 else 0 end,
        case
            when replayed.begins then null
            when w.client_id = operator_id()
                then connection_end(replayed.action, replayed.actor, jsonb_build_object('reason', replayed.reason))
            when replayed.reason = 'refresh_token_replayed' then replayed.reason
            when replayed.action = 'connection.revoked' then 'refresh_token_revoked'
            when replayed.actor = 'client' then 'client_disconnected'
            else 'user_disconnected'
        end, case when replayed.begins then replayed.scopes end
    from replayed join webhook_endpoints w on w.client_id in (replayed.client_id, operator_id())
    where case when replayed.begins then w.client_id = operator_id() else replayed.former_state <> 'disconnected' end
        and (w.client_id = operator_id() or replayed.reason <> 'client_offboarded')
), audited as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select replayed.user_id, @actor::text, replayed.action, replayed.user_id, replayed.client_id, replayed.version,
        jsonb_strip_nulls(jsonb_build_object('reason', nullif(replayed.reason, ''), 'replayed', replayed.acted_at, 'by', replayed.actor,
            'scopes', case when replayed.begins then scope_text(replayed.scopes) end))
    from replayed
)
select action::text as action, count(*) as connections from replayed group by action;
