-- +goose Up

-- Rules of the service, and the sizes of the database. Locks nothing that requests need.

-- is_ahead (0003) without a subtraction from a column: Citus refuses it in a statement that writes, so that no token could be revoked or
-- recovered on a cluster.
create or replace function is_ahead(token_version bigint, token_generation bigint, issued_at timestamptz, inactivity interval,
    state text, version bigint, refresh_generation bigint, authorized_at timestamptz) returns boolean
    language sql stable parallel safe
    return (token_version, token_generation) > (version, refresh_generation) and issued_at + interval '1 minute' > authorized_at
        and issued_at > connect_now() - inactivity and state = 'authorized';

-- The clock's time, or the expected time if the clock is not believed. So a clock that jumps neither ends nor lengthens what it decides by
-- this function, in the second before a server notices the jump. PL/pgSQL is never inlined: Citus refuses the clock within a case.
-- +goose StatementBegin
create function believed_time(expected timestamptz) returns timestamptz
    language plpgsql stable parallel safe as
$$ begin return case when is_believed(expected) is false then expected else connect_now() end; end $$;
-- +goose StatementEnd

-- Programs of 1.0.0 call is_secret_of (0002) without an expected time.
create function is_secret_of(presented bytea, secret_hash bytea, previous_hash bytea, previous_until timestamptz, expected timestamptz)
    returns boolean
    language sql stable parallel safe
    return presented = secret_hash or (presented = previous_hash and previous_until > believed_time(expected));

-- The six checks of connections (0003) as one function, for the check of 0015. PostgreSQL parses the text of each check for each statement that
-- writes to the table, which was a third of the time of a refresh. The function is written in plpgsql so that it stays parsed and is not inlined.
-- +goose StatementBegin
create function is_connection(version bigint, state text, refresh_generation bigint, refresh_hash bytea) returns boolean
    language plpgsql immutable parallel safe as
$$
begin
    return version >= 0
        and state in ('authorized', 'revoked', 'disconnected')
        and refresh_generation >= 0
        and (refresh_hash is null or octet_length(refresh_hash) = 32)
        and (state = 'authorized') = (refresh_hash is not null)
        and (version > 0 or state = 'disconnected');
end
$$;
-- +goose StatementEnd

-- The state of a connection (connection_state of 0003) at an instant: for statements that read many, because the clock costs more than the row.
create function connection_state(state text, refresh_deadline timestamptz, at timestamptz) returns text
    language sql immutable parallel safe
    return case when state = 'authorized' and refresh_deadline <= at then 'lapsed' else state end;

-- Why a connection ended, of an entry of the audit log: a reason of connection.revoked (specification 6), or lapsed, client_offboarded,
-- operator_disconnected or operator_revoked. Null: the entry is of no end. by is who acted, of an act that was replayed after a restore.
create function connection_end(action text, actor text, detail jsonb) returns text
    language sql immutable parallel safe
    return case
        when action = 'connection.lapsed' then 'lapsed'
        when action = 'connection.revoked' and detail ->> 'reason' = 'refresh_token_replayed' then 'refresh_token_replayed'
        when action = 'connection.revoked' and coalesce(detail ->> 'by', actor) = 'client' then 'refresh_token_revoked'
        when action = 'connection.revoked' then 'operator_revoked'
        when action <> 'connection.disconnected' then null
        when detail ->> 'reason' in ('account_deleted', 'client_offboarded') then detail ->> 'reason'
        when coalesce(detail ->> 'by', actor) = 'user' then 'user_disconnected'
        when coalesce(detail ->> 'by', actor) = 'client' then 'client_disconnected'
        else 'operator_disconnected'
    end;

-- The receiver of the operator's own events, where webhooks and events name a client.
create function operator_id() returns uuid
    language sql immutable parallel safe
    return 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid;

-- The bytes of the database: on a cluster those of all nodes that answer.
-- +goose StatementBegin
create function database_bytes() returns bigint
    language plpgsql as
$$
begin
    if to_regclass('pg_catalog.pg_dist_node') is null then
        return pg_database_size(current_database());
    end if;
    return (select sum(n.result::bigint)
        from run_command_on_all_nodes('select pg_database_size(current_database())') n where n.success);
end
$$;
-- +goose StatementEnd

-- The tables with everything that belongs to them, and about how many rows each has. On a cluster the shards and the copies of a table are
-- added up. Their names end with a number.
-- +goose StatementBegin
create function table_sizes() returns table (name text, bytes bigint, indexes bigint, rows bigint)
    language plpgsql as
$$
declare
    of_node constant text := $node$
        select coalesce(json_agg(t), '[]') from (
            select regexp_replace(c.relname, '_[0-9]{6,}$', '') as name, sum(pg_total_relation_size(c.oid)) as bytes,
                sum(pg_indexes_size(c.oid)) as indexes, sum(greatest(c.reltuples, 0))::bigint as rows
            from pg_catalog.pg_class c
            where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace
            group by 1) t $node$;
    node json;
    nodes json[];
begin
    if to_regclass('pg_catalog.pg_dist_node') is null then
        execute of_node into node;
        nodes := array[node];
    else
        nodes := array(select n.result::json from run_command_on_all_nodes(of_node) n where n.success);
    end if;
    return query select t.name, sum(t.bytes)::bigint, sum(t.indexes)::bigint, sum(t.rows)::bigint
        from unnest(nodes) as one, json_to_recordset(one) as t (name text, bytes bigint, indexes bigint, rows bigint)
        group by t.name;
end
$$;
-- +goose StatementEnd

-- The statements take the numbers of these rows themselves, because a cluster sends an insert to one node only if it generates none
-- (sql/oauth/connection.sql). A role that does not own the tables may lack this privilege, which an insert alone did not need.
grant usage on sequence audit_log_id_seq, webhook_changes_change_id_seq to public;

-- +goose Down

revoke usage on sequence audit_log_id_seq, webhook_changes_change_id_seq from public;
drop function table_sizes();
drop function database_bytes();
drop function operator_id;
drop function connection_end;
drop function connection_state(text, timestamptz, timestamptz);
drop function is_connection;
drop function is_secret_of(bytea, bytea, bytea, timestamptz, timestamptz);
drop function believed_time;

create or replace function is_ahead(token_version bigint, token_generation bigint, issued_at timestamptz, inactivity interval,
    state text, version bigint, refresh_generation bigint, authorized_at timestamptz) returns boolean
    language sql stable parallel safe
    return (token_version, token_generation) > (version, refresh_generation) and issued_at > authorized_at - interval '1 minute'
        and issued_at > connect_now() - inactivity and state = 'authorized';
