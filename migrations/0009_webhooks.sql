-- +goose Up

-- Where a client wants its events (specification section 6), and what signs them.
create table webhook_endpoints (
    client_id       uuid        primary key references clients,
    url             text        not null check (url like 'https://%' and octet_length(url) <= 2048),
    -- Sealed by the service's keyset. During a rotation the secret of before signs, too.
    secret          text        not null check (octet_length(secret) <= 2048),
    previous_secret text        check (octet_length(previous_secret) <= 2048),
    previous_until  timestamptz,
    -- The receiver answered 410: nothing is sent until the operator sets a URL again.
    stopped_at      timestamptz,
    created_at      timestamptz not null default connect_now(),
    check ((previous_secret is null) = (previous_until is null))
);

-- Events, written by the statement or transaction that makes the change: none is lost, and none announces what was
-- rolled back. They belong to the client and name no user: they outlive the account whose end they announce.
create table webhook_events (
    event_id           uuid        primary key default gen_random_uuid(),
    client_id          uuid        not null references clients,
    type               text        not null,
    grant_id           uuid        not null,
    connection_version bigint      not null check (connection_version >= 1),
    reason             text        check (reason in ('refresh_token_revoked', 'refresh_token_replayed',
                                                     'client_disconnected', 'user_disconnected', 'account_deleted')),
    datasets           scope_set,
    first_date         date,
    last_date          date,
    created_at         timestamptz not null default connect_now(),
    state              text        not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
    -- Attempts so far, and how many of them came before the last replay: the schedule counts from there.
    attempts           integer     not null default 0 check (attempts >= 0),
    attempts_before    integer     not null default 0 check (attempts_before between 0 and attempts),
    -- When a pending event is due. A server that takes one leases it, for the time that an attempt needs: an event whose
    -- server died is taken by another one when the lease is over.
    next_attempt_at    timestamptz default connect_now(),
    leased_until       timestamptz,
    check ((state = 'pending') = (next_attempt_at is not null)),
    check (case type
        when 'connection.revoked' then reason is not null and num_nonnulls(datasets, first_date, last_date) = 0
        when 'activity.updated' then reason is null and num_nonnulls(datasets, first_date, last_date) = 3
                                     and first_date <= last_date
        else false end)
);

create index webhook_events_log on webhook_events (client_id, created_at, event_id);
create index webhook_events_open on webhook_events (state, created_at) where state <> 'delivered';
-- Servers look here for what is due, client by client.
create index webhook_events_due on webhook_events (client_id, next_attempt_at) where state = 'pending';
create index webhook_events_age on webhook_events (created_at);
create index webhook_events_grant on webhook_events (grant_id);

-- Each attempt to deliver an event: the receiver's response, or why there is none.
create table webhook_attempts (
    event_id    uuid        not null references webhook_events on delete cascade,
    attempt     integer     not null check (attempt >= 1),
    at          timestamptz not null,
    duration_ms integer     not null check (duration_ms >= 0),
    status      integer     check (status between 100 and 999),
    fault       text        check (octet_length(fault) between 1 and 200),
    response    bytea       check (octet_length(response) <= 8192),
    primary key (event_id, attempt),
    check (num_nonnulls(status, fault) >= 1)
);

-- Changes of activity that are to become activity.updated, kept for the window in which they are merged to one event a
-- connection. Rows are only added, so that no import waits for another here.
create table webhook_changes (
    user_id    uuid        not null,
    client_id  uuid        not null,
    change_id  bigint      generated always as identity,
    datasets   scope_set   not null,
    first_date date        not null,
    last_date  date        not null,
    changed_at timestamptz not null default connect_now(),
    primary key (user_id, client_id, change_id),
    foreign key (user_id, client_id) references connections on delete cascade,
    check (first_date <= last_date)
);

create index webhook_changes_age on webhook_changes (changed_at);

-- Notes for whom the rows of a statement changed: connections that may read them and whose client has a webhook. Its
-- arguments are the scopes that read the table, as bits of scope_set, and a row's date. The rows are called "changed".
-- +goose StatementBegin
create function note_activity_change() returns trigger language plpgsql as $$
begin
    if exists (select from webhook_endpoints where stopped_at is null) then
        execute format($sql$
            insert into webhook_changes (user_id, client_id, datasets, first_date, last_date)
            select c.user_id, c.client_id, c.scopes & %1$s, min(%2$s), max(%2$s)
            from changed
            join connections c on c.user_id = changed.user_id
            join webhook_endpoints w on w.client_id = c.client_id
            where c.state = 'authorized' and c.refresh_deadline > connect_now() and c.scopes & %1$s <> 0
                and w.stopped_at is null and %2$s >= c.history_from
            group by c.user_id, c.client_id
            $sql$, tg_argv[0]::smallint, tg_argv[1]);
    end if;
    return null;
end $$;
-- +goose StatementEnd

create trigger webhook_note_insert after insert on daily_steps
    referencing new table as changed for each statement execute function note_activity_change('1', 'changed.date');
create trigger webhook_note_update after update on daily_steps
    referencing new table as changed for each statement execute function note_activity_change('1', 'changed.date');
create trigger webhook_note_delete after delete on daily_steps
    referencing old table as changed for each statement execute function note_activity_change('1', 'changed.date');

-- A row that moves to another date changes both.
create trigger webhook_note_insert after insert on step_corrections
    referencing new table as changed for each statement execute function note_activity_change('1', 'changed.date');
create trigger webhook_note_update after update on step_corrections
    referencing new table as changed for each statement execute function note_activity_change('1', 'changed.date');
create trigger webhook_note_moved after update on step_corrections
    referencing old table as changed for each statement execute function note_activity_change('1', 'changed.date');
create trigger webhook_note_delete after delete on step_corrections
    referencing old table as changed for each statement execute function note_activity_change('1', 'changed.date');

create trigger webhook_note_insert after insert on cycling_activities
    referencing new table as changed for each statement
    execute function note_activity_change('6', 'changed.start_time::date');
create trigger webhook_note_update after update on cycling_activities
    referencing new table as changed for each statement
    execute function note_activity_change('6', 'changed.start_time::date');
create trigger webhook_note_moved after update on cycling_activities
    referencing old table as changed for each statement
    execute function note_activity_change('6', 'changed.start_time::date');
create trigger webhook_note_delete after delete on cycling_activities
    referencing old table as changed for each statement
    execute function note_activity_change('6', 'changed.start_time::date');

create trigger webhook_note_insert after insert on cycling_adjustments
    referencing new table as changed for each statement execute function note_activity_change('2', 'changed.date');
create trigger webhook_note_update after update on cycling_adjustments
    referencing new table as changed for each statement execute function note_activity_change('2', 'changed.date');
create trigger webhook_note_moved after update on cycling_adjustments
    referencing old table as changed for each statement execute function note_activity_change('2', 'changed.date');
create trigger webhook_note_delete after delete on cycling_adjustments
    referencing old table as changed for each statement execute function note_activity_change('2', 'changed.date');

-- An import inserts with keys and triggers off (see internal/activity): these two are on all the same.
alter table daily_steps enable always trigger webhook_note_insert;
alter table cycling_activities enable always trigger webhook_note_insert;

-- +goose Down

drop trigger webhook_note_insert on cycling_adjustments;
drop trigger webhook_note_update on cycling_adjustments;
drop trigger webhook_note_moved on cycling_adjustments;
drop trigger webhook_note_delete on cycling_adjustments;
drop trigger webhook_note_insert on cycling_activities;
drop trigger webhook_note_update on cycling_activities;
drop trigger webhook_note_moved on cycling_activities;
drop trigger webhook_note_delete on cycling_activities;
drop trigger webhook_note_insert on step_corrections;
drop trigger webhook_note_update on step_corrections;
drop trigger webhook_note_moved on step_corrections;
drop trigger webhook_note_delete on step_corrections;
drop trigger webhook_note_insert on daily_steps;
drop trigger webhook_note_update on daily_steps;
drop trigger webhook_note_delete on daily_steps;
drop function note_activity_change;
drop table webhook_changes;
drop table webhook_attempts;
drop table webhook_events;
drop table webhook_endpoints;
