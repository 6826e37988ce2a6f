-- +goose Up

-- Changes of clients, users and connections, with the time and the actor. Each row is written by the statement or transaction that makes the
-- change. It also records sign-ins of operators and exports of the log. Refreshes are not recorded, because they are not decisions.
--
-- A user is represented by the random id, also after deletion. Addresses, secrets and activity are never recorded. Rows are never changed, and
-- are deleted after the operator's retention time.
create table audit_log (
    -- The user, or the client if the row concerns no user, or the zero UUID if it concerns neither, such as an operator's sign-in.
    subject            uuid        not null check (subject = coalesce(user_id, client_id, '00000000-0000-0000-0000-000000000000')),
    id                 bigint      generated always as identity,
    at                 timestamptz not null default connect_now(),
    -- user, client, system or operator; or the name of an operator's token (internal/actor).
    actor              text        not null check (actor ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    action             text        not null check (action ~ '^[a-z]+([._][a-z]+)*$'),
    user_id            uuid,
    client_id          uuid,
    connection_version bigint      check (connection_version >= 1),
    detail             jsonb       not null default '{}' check (jsonb_typeof(detail) = 'object'),
    -- The log of one subject is read in this order. The indexes below serve the other filters.
    primary key (subject, at, id)
);

create index audit_log_at on audit_log (at, id);
create index audit_log_connection on audit_log (subject, client_id, at, id);
create index audit_log_client on audit_log (client_id, at, id);
create index audit_log_actor on audit_log (actor, at, id);
create index audit_log_action on audit_log (action, at, id);

-- The scopes as specification 2.1 writes them.
create function scope_text(scopes scope_set) returns text
    language sql immutable strict parallel safe
    return concat_ws(' ',
        case when scopes & 1 <> 0 then 'daily_steps:read' end,
        case when scopes & 2 <> 0 then 'cycling_daily:read' end,
        case when scopes & 4 <> 0 then 'cycling_activities:read' end);

-- +goose Down

drop table audit_log;
drop function scope_text(scope_set);
