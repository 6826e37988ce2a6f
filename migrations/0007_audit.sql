-- +goose Up

-- What happened to clients, users and connections: who did it, when, to whom. Each row is written by the statement or
-- transaction that makes the change. Refreshes are not in it: they change nothing that anybody decided.
--
-- Nothing here is personal or secret, so that it can stay when a user goes: a user is a hash of the random id.
create table audit_events (
    id                 bigint      generated always as identity primary key,
    at                 timestamptz not null default connect_now(),
    actor              text        not null check (actor in ('user', 'client', 'operator', 'system')),
    action             text        not null check (action ~ '^[a-z]+([._][a-z]+)*$'),
    client_id          uuid,
    user_hash          bytea       check (octet_length(user_hash) = 32),
    connection_version bigint      check (connection_version >= 1),
    detail             jsonb       not null default '{}' check (jsonb_typeof(detail) = 'object')
);

create index audit_events_client on audit_events (client_id, id) where client_id is not null;
create index audit_events_user on audit_events (user_hash, id) where user_hash is not null;
create index audit_events_at on audit_events (at);

-- How the log names a user.
create function audit_user(user_id uuid) returns bytea
    language sql immutable strict parallel safe
    return sha256(uuid_send(user_id));

-- The scopes as specification 2.1 writes them.
create function scope_text(scopes scope_set) returns text
    language sql immutable strict parallel safe
    return concat_ws(' ',
        case when scopes & 1 <> 0 then 'daily_steps:read' end,
        case when scopes & 2 <> 0 then 'cycling_daily:read' end,
        case when scopes & 4 <> 0 then 'cycling_activities:read' end);

-- +goose StatementBegin
create function refuse_audit_change() returns trigger
    language plpgsql as
$$
begin
    raise exception 'the audit log is append-only' using errcode = 'insufficient_privilege';
end
$$;
-- +goose StatementEnd

create trigger audit_events_append_only
    before update or delete or truncate on audit_events
    for each statement execute function refuse_audit_change();

-- +goose Down

drop table audit_events;
drop function refuse_audit_change();
drop function scope_text(scope_set);
drop function audit_user(uuid);
