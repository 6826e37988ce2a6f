-- +goose Up

-- The URL to which a client receives its events (specification section 6), and the secrets that sign them.
create table webhook_endpoints (
    client_id       uuid        primary key references clients,
    url             text        not null check (url like 'https://%' and octet_length(url) <= 2048),
    -- Sealed with the service's keyset. During a rotation the previous secret signs, too.
    secret          text        not null check (octet_length(secret) <= 2048),
    previous_secret text        check (octet_length(previous_secret) <= 2048),
    previous_until  timestamptz,
    -- The receiver answered 410: nothing is sent until the operator sets a URL again.
    stopped_at      timestamptz,
    created_at      timestamptz not null default connect_now(),
    constraint webhook_endpoints_previous_secret check ((previous_secret is null) = (previous_until is null))
);

-- Events, written by the statement or transaction that makes the change, so that none is lost and none announces a change that was rolled
-- back. The key begins with the user of the connection. Events that announce the end of an account outlive it.
create table webhook_events (
    user_id            uuid        not null,
    event_id           uuid        not null default gen_random_uuid(),
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
    state              text        collate "C" not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
    -- Attempts so far, and how many of them came before the last replay: the schedule counts from there.
    attempts           integer     not null default 0 check (attempts >= 0),
    attempts_before    integer     not null default 0 check (attempts_before between 0 and attempts),
    -- It has been put into webhook_queue.
    queued             boolean     not null default false,
    primary key (user_id, event_id),
    constraint webhook_events_queued check (queued or state = 'pending'),
    constraint webhook_events_content check (case type
        when 'connection.revoked' then reason is not null and num_nonnulls(datasets, first_date, last_date) = 0
        when 'activity.updated' then reason is null and num_nonnulls(datasets, first_date, last_date) = 3
                                     and first_date <= last_date
        else false end)
);

create index webhook_events_log on webhook_events (client_id, created_at, event_id);
create index webhook_events_connection on webhook_events (user_id, client_id, created_at, event_id);
create index webhook_events_open on webhook_events (state, created_at) where state <> 'delivered';
create index webhook_events_failed on webhook_events (client_id, created_at, event_id) where state = 'failed';
create index webhook_events_new on webhook_events (created_at) where not queued;
create index webhook_events_age on webhook_events (created_at);
create index webhook_events_id on webhook_events (event_id);

-- The pending events that servers claim. On a cluster this small table is in one place, because servers share it by locks of its rows. A
-- server leases an event for the time of an attempt. If the server dies, another one claims the event when the lease ends.
create table webhook_queue (
    event_id        uuid        primary key,
    user_id         uuid        not null,
    client_id       uuid        not null,
    created_at      timestamptz not null,
    next_attempt_at timestamptz not null,
    leased_until    timestamptz
) with (fillfactor = 70);

-- Servers read here which events are due, client by client.
create index webhook_queue_due on webhook_queue (client_id, next_attempt_at);

-- Each attempt to deliver an event: the receiver's response, or why there is none.
create table webhook_attempts (
    user_id     uuid        not null,
    event_id    uuid        not null,
    attempt     integer     not null check (attempt >= 1),
    at          timestamptz not null,
    duration_ms integer     not null check (duration_ms >= 0),
    status      integer     check (status between 100 and 999),
    fault       text        check (octet_length(fault) between 1 and 200),
    response    bytea       check (octet_length(response) <= 8192),
    primary key (user_id, event_id, attempt),
    foreign key (user_id, event_id) references webhook_events on delete cascade,
    constraint webhook_attempts_outcome check (num_nonnulls(status, fault) >= 1)
);

-- Changes of activity that become activity.updated. They are kept for the window in which they are merged into one event for each
-- connection. The statement that changes the activity inserts them. Rows are only inserted, so that imports do not wait for each other.
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
    constraint webhook_changes_dates check (first_date <= last_date)
);

create index webhook_changes_age on webhook_changes (changed_at);

-- +goose Down

drop table webhook_changes;
drop table webhook_attempts;
drop table webhook_queue;
drop table webhook_events;
drop table webhook_endpoints;
