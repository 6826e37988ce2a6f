-- +goose Up

-- Text that is part of an index has the collation "C" in this schema, because the order of every other collation may change with the
-- system library, which breaks the index.

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

-- A server knows from its own monotonic clock which time to expect. It is null, and bounds nothing, in programs that have not observed
-- the clock.

-- Whether the clock is within a minute of the expected time.
create function is_believed(expected timestamptz) returns boolean
    language sql stable parallel safe
    return connect_now() <@ tstzrange(expected - interval '1 minute', expected + interval '1 minute', '[]'); -- asks the clock once

-- The time at which a lifetime begins: now, but at most half a minute after the expected time, which is not exact.
create function issue_time(expected timestamptz) returns timestamptz
    language sql stable parallel safe
    return least(connect_now(), expected + interval '30 seconds');

-- One server at a time has a turn, whichever node it is connected to. It holds the lock of the row. Advisory locks would be local to a node of
-- a cluster.
create table turns (turn text collate "C" primary key);

insert into turns (turn) values ('webhook_queue'), ('webhook_merge'), ('limiter');

-- One row: sweeps have deleted what had expired by then. It moves by small steps, so that a clock that jumps deletes little.
create table sweeps (
    id          int         primary key default 1 check (id = 1),
    swept_until timestamptz not null
);

insert into sweeps (swept_until) values (connect_now() - interval '5 minutes');

-- A mark of each key of the keyset, so that a keyset without one of them is refused: an empty string sealed with each sealing key that a
-- server has used, by the key's id, and the digest of an empty string for the key of identifiers. The marks reveal no key.
create table keyset_marks (
    key   text collate "C" primary key,
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
    server_id      uuid        primary key, -- random for each process
    host           text        not null check (octet_length(host) between 1 and 255),
    version        text        not null check (octet_length(version) <= 255),
    commit         text        not null check (octet_length(commit) <= 255),
    started_at     timestamptz not null,
    seen_at        timestamptz not null,
    -- The alerts that fire on the server, by its own evaluation: an array of objects.
    alerts         jsonb       not null check (jsonb_typeof(alerts) = 'array'),
    -- By how much the database's clock is ahead of the server's, and whether the server believes it.
    clock_ahead    interval    not null default '0',
    clock_believed boolean     not null default true,
    -- The store of the server's rate limiter. Empty if it is unknown.
    limiter        text        not null default '' check (octet_length(limiter) <= 255)
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
drop table sweeps;
drop table keyset_marks;
drop table turns;
drop function issue_time;
drop function is_believed;
drop function connect_now();
