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
-- Programs before this migration queue again what was here, and send it at once.
update webhook_events set queued = false where state = 'pending' and leased_until is not null;
alter table webhook_events drop column due_at, drop column leased_until;
