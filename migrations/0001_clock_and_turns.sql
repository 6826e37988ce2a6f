-- +goose Up

-- The clock of the service. It decides every expiry inside the statement that acts on the row, so that servers with different clocks
-- agree. It is constant within a statement. Tests and the demo shift it for their own connections with the setting connect.clock_offset
-- (an interval).
--
-- It is written in plpgsql so that PostgreSQL does not inline it: Citus accepts this call in a statement that writes, and refuses its body.
-- +goose StatementBegin
create function connect_now() returns timestamptz
    language plpgsql stable parallel safe as
$$
begin
    return statement_timestamp()
        + coalesce(nullif(current_setting('connect.clock_offset', true), ''), '0')::interval;
end
$$;
-- +goose StatementEnd

-- Tasks that one server at a time does, whichever node it is connected to. It holds the lock of the row, which the others skip. Advisory
-- locks would be local to a node of a cluster.
create table turns (task text primary key);

insert into turns (task) values ('webhook_queue'), ('webhook_merge');

-- A mark of each key of the keyset, so that a keyset without one of them is refused: an empty string sealed with each sealing key that a
-- server has used, by the key's id, and the digest of an empty string for the key of identifiers. The marks reveal no key.
create table keyset_marks (
    key   text primary key,
    mark  text not null,
    -- When a server used the key for the first time.
    since timestamptz not null default connect_now()
);

-- The history of commits that the database has, in one row.
create table database_history (
    id         int  primary key default 1 check (id = 1),
    origin     text not null, -- database_origin() when the mark was made
    mark       uuid not null default gen_random_uuid(),
    reconciled text not null  -- the first origin, or the one that an operator has reconciled with what was lost
);

-- Tells histories apart: the cluster, its timeline, which changes when a replica takes over and after a recovery to a point in time,
-- and this table, which pg_restore makes anew. The nodes of a Citus cluster have no common history.
-- +goose StatementBegin
create function database_origin() returns text
    language plpgsql volatile as
$$
begin
    if to_regclass('pg_catalog.pg_dist_node') is not null then
        return 'citus';
    end if;
    return (select system_identifier || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || '/'
        || 'database_history'::regclass::oid from pg_control_system());
end
$$;
-- +goose StatementEnd

insert into database_history (origin, reconciled) select origin, origin from database_origin() as origin;

-- The mark of the history, null if it is of an earlier one. A replica has the mark if it is of the primary's history.
-- +goose StatementBegin
create function database_mark() returns uuid
    language plpgsql volatile as
$$
begin
    return (select mark from database_history where case when pg_is_in_recovery() then true else origin = database_origin() end);
end
$$;
-- +goose StatementEnd

-- The servers of this database. Each one updates its row regularly and deletes it when it stops. The row of a killed server is swept.
create table servers (
    server_id  uuid        primary key, -- random for each process
    host       text        not null check (octet_length(host) between 1 and 255),
    version    text        not null check (octet_length(version) <= 255),
    commit     text        not null check (octet_length(commit) <= 255),
    started_at timestamptz not null,
    seen_at    timestamptz not null,
    -- The alerts that fire on the server, by its own evaluation: an array of objects.
    alerts     jsonb       not null check (jsonb_typeof(alerts) = 'array')
);

-- The size of the database at the first measurement of each day.
create table database_sizes (
    day   date   primary key,
    bytes bigint not null check (bytes >= 0)
);

-- +goose Down

drop table database_sizes;
drop table servers;
drop function database_mark;
drop function database_origin;
drop table database_history;
drop table keyset_marks;
drop table turns;
drop function connect_now();
