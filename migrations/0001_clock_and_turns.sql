-- +goose Up

-- The one clock of the service: every expiry is decided by it, inside the statement that acts on the row, so that
-- servers whose own clocks differ agree. One instant for the whole of a statement. Tests and the demo shift it for
-- their own connections with the setting connect.clock_offset (an interval).
--
-- In plpgsql so that it is called and never inlined: a database that is spread over several nodes takes a function in an
-- expression of a statement that writes, and not what would be left of it.
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

-- The tasks that one server at a time does, wherever it is connected. It holds the lock of the task's row, and the others pass over
-- it. An advisory lock would be one for each node of a cluster.
create table turns (task text primary key);

insert into turns (task) values ('webhook_queue'), ('webhook_merge');

-- What the keys of the keyset made of nothing, so that a keyset that lacks one of them is refused: for each sealing key that
-- a server has sealed with, by its id, nothing sealed by it, and for the one behind identifiers its digest of nothing. No key
-- can be learnt from that.
create table keyset_marks (
    key   text primary key,
    mark  text not null,
    -- When a server used the key for the first time.
    since timestamptz not null default connect_now()
);

-- The servers that work on this database, by what each says of itself again and again. One that stops removes its row; one that
-- was killed leaves it, until it is swept.
create table servers (
    server_id  uuid        primary key, -- of a process, random
    host       text        not null check (octet_length(host) between 1 and 255),
    version    text        not null check (octet_length(version) <= 255),
    commit     text        not null check (octet_length(commit) <= 255),
    started_at timestamptz not null,
    seen_at    timestamptz not null,
    -- The alerts that fire there, as it finds itself: an array of objects.
    alerts     jsonb       not null check (jsonb_typeof(alerts) = 'array')
);

-- How large the database was, at the first look of each day.
create table database_sizes (
    day   date   primary key,
    bytes bigint not null check (bytes >= 0)
);

-- +goose Down

drop table database_sizes;
drop table servers;
drop table keyset_marks;
drop table turns;
drop function connect_now();
