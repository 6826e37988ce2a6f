-- +goose Up

-- A pending event waits in its own row, where its user is, and no longer in webhook_queue. Programs of 1.0.0 put events that are not queued
-- there and queue nothing else. So an event that is queued and was never leased is in webhook_queue; every other pending event is here. Sweeps
-- bring what was left in webhook_queue.
--
-- Locks webhook_events for a moment, to add columns: no row is read. The functions come first: Citus makes none after a change of a table in
-- the same transaction.

-- Records an attempt and the new state of its event, and ends the lease, of which lease is the end. If
-- the event has another one by now, it was leased again or replayed: only a delivery changes the state then, and the result is false. If the event was
-- deleted, the result is null. The function has two statements. On a cluster, one statement that updates and inserts costs three times as much.
-- +goose StatementBegin
create function record_webhook_attempt(of_user uuid, of_event uuid, lease timestamptz, outcome text, next_due timestamptz,
    made_at timestamptz, took_ms int, response_status int, response_fault text, response_body bytea) returns boolean
    language plpgsql as
$$
declare
    ended timestamptz := now(); -- Citus refuses the call within a case
    number int;
    held boolean;
begin
    update webhook_events e
    set attempts = e.attempts + 1,
        attempts_before = e.attempts_before + (e.leased_until is distinct from lease)::int, -- its schedule goes on without this attempt
        state = case
            when outcome = 'delivered' then 'delivered'
            when e.state <> 'pending' or e.leased_until is distinct from lease then e.state
            else outcome end,
        ready = case when e.leased_until is distinct from lease then e.ready end,
        due_at = case when e.leased_until is distinct from lease then e.due_at else next_due end,
        leased_until = case when e.leased_until is distinct from lease then e.leased_until else ended end
    where e.user_id = of_user and e.event_id = of_event
    returning e.attempts, e.leased_until = ended into number, held;
    if number is not null then
        insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault, response)
        values (of_user, of_event, number, made_at, took_ms, response_status, response_fault, response_body);
    end if;
    return held;
end
$$;
-- +goose StatementEnd

-- The work of the node that runs it: events that are ready, retries whose time has come, and changes whose window is over. Each has its
-- part: the number of its shard. It reads the node's shards by their names, because Citus would ask all nodes. It locks nothing and writes
-- nothing. It goes from one client with ready events to the next one by the index, so that clients and retries that wait cost nothing, and
-- passes by a client that is disabled, or whose webhook is paused but could send, with one step, however many events wait. room bounds the events of each client; of a client that is not in it
-- there are as many as are sent at the same time, and 8 of the operator, who has no row in clients. The statement is prepared once in a session, because to plan it takes several times as
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
            select r.client_id, coalesce(($2 ->> r.client_id::text)::int, cl.webhook_parallel, 8) as at_most
            from ready r left join %1$s cl using (client_id) left join %5$s w using (client_id)
            where r.client_id is not null and cl.status is distinct from 'disabled'
                and (w.paused_at is null or w.stopped_at is not null or cl.status = 'offboarded')
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

alter table webhook_events
    -- 0: it is new, or replayed. 1: a retry whose time has come, which is sent after those. Null: it waits for due_at. Servers mark a retry
    -- once, so that no later clock takes it back.
    add column ready smallint default 0,
    -- When the next attempt is due. Null: at once, because there was none since the event was written.
    add column due_at timestamptz,
    -- A server has the event until then, or had it. Null: none has had it. Real time, even if a test shifts the clock.
    add column leased_until timestamptz;

-- +goose Down

drop function webhook_work;
drop function webhook_work_of_node;
drop function record_webhook_attempt;
-- Programs of 1.0.0 queue again what was here, and send it at once.
update webhook_events set queued = false where state = 'pending' and leased_until is not null;
alter table webhook_events drop column ready, drop column due_at, drop column leased_until;
