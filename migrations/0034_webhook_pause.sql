-- +goose Up

-- A partner, or the operator, pauses a webhook: events are written and wait, and none is sent until it is resumed. The functions come before
-- the column, see migration 0021.

-- The work of the node that runs it: events that are ready, retries whose time has come, and changes whose window is over. Each has its
-- part: the number of its shard. It reads the node's shards by their names, because Citus would ask all nodes. It locks nothing and writes
-- nothing. It goes from one client with ready events to the next one by the index, so that clients and retries that wait cost nothing, and
-- passes by a paused client with one step, however many events wait. room bounds the events of each client; of a client that is not in it
-- there are as many as are sent at the same time. The statement is prepared once in a session, because to plan it takes several times as
-- long as to find nothing.
-- +goose StatementBegin
create function webhook_work_of_node(window_length interval, room jsonb, max_events int, max_changes int)
    returns table (part bigint, user_id uuid, client_id uuid, kind text, event_id uuid, ready smallint, due_at timestamptz, share int)
    language plpgsql as
$$
declare
    events text;
    changes text;
    partners text;
    receivers text;
    kept text; -- the name of the prepared statement
begin
    if to_regclass('pg_catalog.pg_dist_partition') is not null then
        select string_agg(format('select %s::bigint as part, * from %s', e.shardid, shard_name(e.logicalrelid, e.shardid)), ' union all '),
            string_agg(format('select %s::bigint as part, * from %s', e.shardid, shard_name(c.logicalrelid, c.shardid)), ' union all '),
            min(shard_name(r.logicalrelid, r.shardid)), min(shard_name(w.logicalrelid, w.shardid))
        into events, changes, partners, receivers
        from pg_dist_partition t
        join pg_dist_shard e using (logicalrelid)
        join pg_dist_placement p on p.shardid = e.shardid and p.groupid = (select l.groupid from pg_dist_local_group l)
        join pg_dist_shard c on c.logicalrelid = 'webhook_changes'::regclass and c.shardminvalue = e.shardminvalue
        join pg_dist_shard r on r.logicalrelid = 'clients'::regclass
        join pg_dist_shard w on w.logicalrelid = 'webhook_endpoints'::regclass
        where t.logicalrelid = 'webhook_events'::regclass and t.partmethod = 'h';
    end if;
    if events is null then
        events := 'select 0::bigint as part, * from webhook_events';
        changes := 'select 0::bigint as part, * from webhook_changes';
        partners := 'clients';
        receivers := 'webhook_endpoints';
    end if;
    kept := 'webhook_work_' || md5(events);
    if not exists (select 1 from pg_prepared_statements s where s.name = kept) then
        execute format($work$
        prepare %4$I (timestamptz, jsonb, interval, int, int) as
        with recursive ready as (
            (select o.client_id from (%2$s) o where o.state = 'pending' and o.ready is not null order by o.client_id limit 1)
            union all
            select (select o.client_id from (%2$s) o
                where o.state = 'pending' and o.ready is not null and o.client_id > r.client_id order by o.client_id limit 1)
            from ready r where r.client_id is not null
        ), sent as materialized (
            select cl.client_id, coalesce(($2 ->> cl.client_id::text)::int, cl.webhook_parallel) as at_most
            from ready r join %1$s cl using (client_id) left join %5$s w using (client_id)
            where w.paused_at is null
        )
        (select e.part, e.user_id, e.client_id, 'event', e.event_id, e.ready, e.created_at, e.share
        from sent s
        cross join lateral (
            select o.*, s.at_most as share from (%2$s) o
            where o.client_id = s.client_id and o.state = 'pending' and o.ready is not null
                and (not o.queued or o.leased_until <= now())
            order by o.ready, o.created_at
            limit s.at_most
        ) e
        order by e.ready, e.created_at
        limit $4)
        union all
        (select o.part, o.user_id, o.client_id, 'retry', o.event_id, 0::smallint, o.due_at, 0 from (%2$s) o
        where o.state = 'pending' and o.ready is null and o.due_at <= $1
        order by o.due_at
        limit $4)
        union all
        (select ch.part, ch.user_id, ch.client_id, 'change', ch.user_id, 0::smallint, ch.changed_at, 0 from (%3$s) ch
        where ch.changed_at <= $1 - $3
        order by ch.changed_at
        limit $5)
        union all -- of the future: the clock was ahead when they were noted
        (select ch.part, ch.user_id, ch.client_id, 'change', ch.user_id, 0::smallint, ch.changed_at, 0 from (%3$s) ch
        where ch.changed_at > $1 + interval '1 minute'
        limit $5)
        $work$, partners, events, changes, kept, receivers);
    end if;
    return query execute format('execute %I (%L, %L, %L, %L, %L)', kept, connect_now(), room, window_length, max_events, max_changes);
end
$$;
-- +goose StatementEnd

-- The work of all nodes. A statement that names an id of a node's shard reaches the node; the count is there to name it.
-- +goose StatementBegin
create function webhook_work(window_length interval, room jsonb, max_events int, max_changes int)
    returns table (part bigint, user_id uuid, client_id uuid, kind text, event_id uuid, ready smallint, due_at timestamptz, share int)
    language plpgsql as
$$
declare
    missing int[];
    node int;
    id uuid;
begin
    if to_regclass('pg_catalog.pg_dist_partition') is not null then
        missing := array(select distinct p.groupid
            from pg_dist_partition t join pg_dist_shard s using (logicalrelid) join pg_dist_placement p using (shardid)
            where t.logicalrelid = 'webhook_events'::regclass and t.partmethod = 'h');
    end if;
    if coalesce(cardinality(missing), 0) = 0 then
        return query select * from webhook_work_of_node(window_length, room, max_events, max_changes);
        return;
    end if;
    while cardinality(missing) > 0 loop
        id := gen_random_uuid();
        select p.groupid into node from pg_dist_placement p where p.shardid = get_shard_id_for_distribution_column('webhook_events', id);
        continue when node <> all (missing);
        missing := array_remove(missing, node);
        return query select w.*
            from (select count(*) from webhook_events e where e.user_id = id and e.event_id = id) as reached
            cross join lateral webhook_work_of_node(window_length, room, max_events, max_changes) as w;
    end loop;
end
$$;
-- +goose StatementEnd

alter table webhook_endpoints add column paused_at timestamptz;

-- +goose Down

-- Paused webhooks are sent again.
alter table webhook_endpoints drop column paused_at;
drop function webhook_work;
drop function webhook_work_of_node;
