-- +goose Up

-- A pending event waits in its own row, where its user is, and no longer in webhook_queue. Programs before this migration put events that
-- are not queued there and queue nothing else. So an event that is queued and was never leased is in webhook_queue; every other
-- pending event is here. Sweeps bring what was left in webhook_queue.
-- The function comes first: Citus makes none after a change of a table in the same transaction.

-- Records an attempt and the new state of its event, and ends the lease. attempts_known is the number of attempts at the time of the lease.
-- If another attempt was recorded since, the lease had ended: only a delivery changes the state then, and the result is false. If the event was
-- deleted, the result is null. The function has two statements. On a cluster, one statement that updates and inserts costs three times as much.
-- +goose StatementBegin
create function record_webhook_attempt(of_user uuid, of_event uuid, attempts_known int, outcome text, next_due timestamptz,
    made_at timestamptz, took_ms int, response_status int, response_fault text, response_body bytea) returns boolean
    language plpgsql as
$$
declare
    ended timestamptz := now(); -- Citus refuses the call within a case
    number int;
begin
    update webhook_events e
    set attempts = e.attempts + 1,
        state = case
            when outcome = 'delivered' then 'delivered'
            when e.state <> 'pending' or e.attempts <> attempts_known then e.state
            else outcome end,
        ready = case when e.attempts <> attempts_known then e.ready end,
        due_at = case when e.attempts = attempts_known then next_due else e.due_at end,
        leased_until = case when e.attempts = attempts_known then ended else e.leased_until end
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
    -- 0: it is new, or replayed. 1: a retry whose time has come, which is sent after those. Null: it waits for due_at. Servers mark a retry
    -- once, so that no later clock takes it back.
    add column ready smallint default 0,
    -- When the next attempt is due. Null: at once, because there was none since the event was written.
    add column due_at timestamptz,
    -- A server has the event until then, or had it. Null: none has had it. Real time, even if a test shifts the clock.
    add column leased_until timestamptz;

-- +goose Down

drop function record_webhook_attempt;
-- Programs before this migration queue again what was here, and send it at once.
update webhook_events set queued = false where state = 'pending' and leased_until is not null;
alter table webhook_events drop column ready, drop column due_at, drop column leased_until;
