-- +goose Up

-- A pending event waits in its own row, where its user is, and no longer in webhook_queue. Programs before this migration put events that
-- are not queued there and queue nothing else. So an event that is queued and was never leased is in webhook_queue; every other
-- pending event is here. Sweeps bring what was left in webhook_queue.
-- The functions come first: Citus makes none after a change of a table in the same transaction.

-- One id for each node that has events, which is on that node; one PostgreSQL is one node. A statement that names the id reaches the node.
-- +goose StatementBegin
create function node_places() returns table (place uuid)
    language plpgsql as
$$
declare
    missing int[];
    found int;
begin
    if to_regclass('pg_catalog.pg_dist_partition') is not null then
        missing := array(select distinct p.groupid
            from pg_dist_partition t join pg_dist_shard s using (logicalrelid) join pg_dist_placement p using (shardid)
            where t.logicalrelid = 'webhook_events'::regclass and t.partmethod = 'h');
    end if;
    if coalesce(cardinality(missing), 0) = 0 then
        place := '00000000-0000-0000-0000-000000000000';
        return next;
        return;
    end if;
    while cardinality(missing) > 0 loop
        place := gen_random_uuid();
        select p.groupid into found from pg_dist_placement p
        where p.shardid = get_shard_id_for_distribution_column('webhook_events', place);
        if found = any (missing) then
            missing := array_remove(missing, found);
            return next;
        end if;
    end loop;
end
$$;
-- +goose StatementEnd

-- The work of the node that runs it: events that are ready, retries whose time has come, and changes whose window is over. Each has its
-- part: the number of its shard. It reads the node's shards by their names, because Citus would ask all nodes. It locks nothing and writes
-- nothing. It goes from one client with ready events to the next one by the index, so that clients and retries that wait cost nothing. room
-- bounds the events of each client; of a client that is not in it there are as many as are sent at the same time. The statement is prepared
-- once in a session, because to plan it takes several times as long as to find nothing.
-- +goose StatementBegin
create function webhook_work(window_length interval, room jsonb, max_events int, max_changes int)
    returns table (part bigint, user_id uuid, client_id uuid, kind text, event_id uuid, due_at timestamptz, share int)
    language plpgsql as
$$
declare
    events text;
    changes text;
    partners text;
    kept text; -- the name of the prepared statement
begin
    if to_regclass('pg_catalog.pg_dist_partition') is not null then
        select string_agg(format('select %s::bigint as part, * from %s', e.shardid, shard_name(e.logicalrelid, e.shardid)), ' union all '),
            string_agg(format('select %s::bigint as part, * from %s', e.shardid, shard_name(c.logicalrelid, c.shardid)), ' union all '),
            min(shard_name(r.logicalrelid, r.shardid))
        into events, changes, partners
        from pg_dist_partition t
        join pg_dist_shard e using (logicalrelid)
        join pg_dist_placement p on p.shardid = e.shardid and p.groupid = (select l.groupid from pg_dist_local_group l)
        join pg_dist_shard c on c.logicalrelid = 'webhook_changes'::regclass and c.shardminvalue = e.shardminvalue
        join pg_dist_shard r on r.logicalrelid = 'clients'::regclass
        where t.logicalrelid = 'webhook_events'::regclass and t.partmethod = 'h';
    end if;
    if events is null then
        events := 'select 0::bigint as part, * from webhook_events';
        changes := 'select 0::bigint as part, * from webhook_changes';
        partners := 'clients';
    end if;
    kept := 'webhook_work_' || md5(events);
    if not exists (select 1 from pg_prepared_statements s where s.name = kept) then
        execute format($work$
        prepare %4$I (timestamptz, jsonb, interval, int, int) as
        with recursive ready as (
            (select o.client_id from (%2$s) o where o.state = 'pending' and o.due_at < '1971-01-01Z' order by o.client_id limit 1)
            union all
            select (select o.client_id from (%2$s) o
                where o.state = 'pending' and o.due_at < '1971-01-01Z' and o.client_id > r.client_id order by o.client_id limit 1)
            from ready r where r.client_id is not null
        )
        (select e.part, e.user_id, e.client_id, 'event', e.event_id, greatest(e.due_at, e.created_at), e.share
        from ready r
        join %1$s cl using (client_id)
        cross join lateral (
            select o.*, coalesce(($2 ->> cl.client_id::text)::int, cl.webhook_parallel) as share from (%2$s) o
            where o.client_id = cl.client_id and o.state = 'pending' and o.due_at < '1971-01-01Z'
                and (not o.queued or o.leased_until <= now())
            order by o.due_at, o.created_at
            limit coalesce(($2 ->> cl.client_id::text)::int, cl.webhook_parallel)
        ) e
        order by e.due_at, e.created_at
        limit $4)
        union all
        (select o.part, o.user_id, o.client_id, 'retry', o.event_id, o.due_at, 0 from (%2$s) o
        where o.state = 'pending' and o.due_at between '1971-01-01Z' and $1
        order by o.due_at
        limit $4)
        union all
        (select ch.part, ch.user_id, ch.client_id, 'change', ch.user_id, ch.changed_at, 0 from (%3$s) ch
        where ch.changed_at <= $1 - $3
        order by ch.changed_at
        limit $5)
        union all -- of the future: the clock was ahead when they were noted
        (select ch.part, ch.user_id, ch.client_id, 'change', ch.user_id, ch.changed_at, 0 from (%3$s) ch
        where ch.changed_at > $1 + interval '1 minute'
        limit $5)
        $work$, partners, events, changes, kept);
    end if;
    return query execute format('execute %I (%L, %L, %L, %L, %L)', kept, connect_now(), room, window_length, max_events, max_changes);
end
$$;
-- +goose StatementEnd

-- Records an attempt and the new state of its event, and ends the lease. attempts_known is the number of attempts at the time of the lease.
-- If another attempt was recorded since, the lease had ended: only a delivery changes the state then, and the result is false. If the event was
-- deleted, the result is null. The function has two statements. On a cluster, one statement that updates and inserts costs three times as much.
-- +goose StatementBegin
create function record_webhook_attempt(of_user uuid, of_event uuid, attempts_known int, outcome text, next_due timestamptz,
    made_at timestamptz, took_ms int, response_status int, response_fault text, response_body bytea) returns boolean
    language plpgsql as
$$
declare
    number int;
begin
    update webhook_events e
    set attempts = e.attempts + 1,
        state = case
            when outcome = 'delivered' then 'delivered'
            when e.state <> 'pending' or e.attempts <> attempts_known then e.state
            else outcome end,
        due_at = case when e.attempts = attempts_known then next_due else e.due_at end,
        leased_until = case when e.attempts = attempts_known then '1970-01-01Z' else e.leased_until end
    where e.user_id = of_user and e.event_id = of_event
    returning e.attempts into number;
    if number is not null then
        insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault, response)
        values (of_user, of_event, number, made_at, took_ms, response_status, response_fault, response_body);
    end if;
    return number = attempts_known + 1;
end
$$;
-- +goose StatementEnd

alter table webhook_events
    -- When the next attempt is due. An event of before 1971 is ready, whatever the clock says: a new one, which comes first, or a retry whose
    -- time has come, which servers mark so.
    add column due_at timestamptz not null default '1970-01-01Z',
    -- A server has the event until then. Real time, even if a test shifts the clock.
    add column leased_until timestamptz;

-- +goose Down

drop function record_webhook_attempt;
drop function webhook_work;
drop function node_places;
-- Programs before this migration queue again what was here, and send it at once.
update webhook_events set queued = false where state = 'pending' and leased_until is not null;
alter table webhook_events drop column due_at, drop column leased_until;
