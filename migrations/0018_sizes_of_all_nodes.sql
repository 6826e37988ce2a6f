-- +goose Up

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

-- +goose Down

drop function table_sizes();
drop function database_bytes();
