-- +goose Up

-- Changes of clients, users and connections, with the time and the actor. Each row is written by the statement or transaction that makes the
-- change. It also records sign-ins of operators and exports of the log. Refreshes are not recorded, because they are not decisions.
--
-- A user is represented by the random id, also after deletion. Addresses, secrets and activity are never recorded. Rows are never changed, and
-- are deleted after the operator's retention time.
create table audit_log (
    -- The user, or the client if the row concerns no user, or the zero UUID if it concerns neither, such as an operator's sign-in.
    subject            uuid        not null constraint audit_log_subject check (subject = coalesce(user_id, client_id, '00000000-0000-0000-0000-000000000000')),
    id                 bigint      generated always as identity,
    at                 timestamptz not null default connect_now(),
    -- user, client, system or operator; or the name of an operator's token (internal/actor).
    actor              text        collate "C" not null check (actor ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    action             text        collate "C" not null check (action ~ '^[a-z]+([._][a-z]+)*$'),
    user_id            uuid,
    client_id          uuid,
    connection_version bigint      check (connection_version >= 1),
    detail             jsonb       not null default '{}' check (jsonb_typeof(detail) = 'object'),
    -- The log of one subject is read in this order. Each index below serves one other filter, and no other index bounds what that filter
    -- reads: without audit_log_connection, entries with one partner would hide those with another.
    primary key (subject, at, id)
);

create index audit_log_at on audit_log (at, id);
create index audit_log_connection on audit_log (subject, client_id, at, id) where client_id is not null;
create index audit_log_client on audit_log (client_id, at, id) where client_id is not null;
create index audit_log_actor on audit_log (actor, at, id);
create index audit_log_action on audit_log (action, at, id);

-- The instant before which no entry is added any more: now, or when the oldest transaction began that has written entries and has
-- not ended, or the oldest statement that may be about to write one. An entry has the instant of its statement. A statement that
-- has run for ten seconds without the lock of the table writes no entry. When a transaction of another role began is not known
-- here, so that it holds back everything. On a cluster only the asked node's transactions count (docs/scaling.md).
-- +goose StatementBegin
create function audit_log_settled() returns timestamptz
    language plpgsql stable as
$$
begin
    return (
        select least(connect_now(), min(case
                when writer.pid is not null then coalesce(a.xact_start, '2000-01-01')
                else a.query_start
            end) + (connect_now() - statement_timestamp()))
        from pg_stat_activity a
        left join (
            select distinct pid from pg_locks where relation = 'audit_log'::regclass and mode = 'RowExclusiveLock'
        ) writer on writer.pid = a.pid
        where a.datname = current_database() and a.pid <> pg_backend_pid()
            and (writer.pid is not null
                or a.backend_type = 'client backend' and a.state = 'active' and a.query_start > clock_timestamp() - interval '10 seconds')
    );
end
$$;
-- +goose StatementEnd

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
drop function audit_log_settled();
