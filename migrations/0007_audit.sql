-- +goose Up

-- What happened to clients, users and connections: who did it, when, to whom. Each row is written by the statement or
-- transaction that makes the change. Operators who sign in, and who take the log with them, are in it as well. Refreshes are not in it: they change nothing that anybody decided.
--
-- A user is the random id, also of a user who was deleted. No address, no secret and no activity is here. Rows are never
-- changed, and go when they are as old as the operator wants to keep them.
create table audit_log (
    -- Whom the row is filed under: the user, or the client where no user is concerned. What concerns neither, such as an operator
    -- who signs in, is filed under nobody.
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
    -- In the order in which the log of one user is read, as each of the indexes is for what it is of.
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
