-- +goose Up

-- New tables. Locks clients, to which three of them refer, for a moment: requests read it meanwhile, and nobody writes it.

-- Emails without a code that wait for the mail server. A row has neither an address nor a secret: the server that sends it finds the
-- recipient's address, and sends nothing if there is none any more. The statement that makes a change adds its notice.
create table notices (
    -- A user or a client, so the column has no foreign key. Deleting a user deletes the user's notices.
    recipient    uuid        not null,
    notice_id    uuid        not null default gen_random_uuid(),
    kind         text        not null check (kind ~ '^[a-z]+(_[a-z]+)*$'),
    data         jsonb       not null default '{}',
    put_at       timestamptz not null default connect_now(),
    -- These are real time even if a test or the demo shifts the clock, because they bound what servers do.
    due_at       timestamptz not null default now(),
    attempts     smallint    not null default 0 check (attempts >= 0),
    leased_until timestamptz,
    primary key (recipient, notice_id)
);

create index notices_due on notices (due_at);

-- Events of sign-ins of an address within 7 days, for support. The key is a keyed hash of the address, with or without an account.
-- The rows have no code and no address. The id is derived from the event, so that it is stored once: refusals until the same time are one.
create table sign_in_events (
    key        bytea       not null check (octet_length(key) = 32),
    id         uuid        not null,
    at         timestamptz not null,
    sign_in_id uuid        not null,
    event      text        not null check (event ~ '^[a-z]+(_[a-z]+)*$'),
    -- The answer of the mail server without addresses, the number of a wrong attempt, or the operator who lifted the limits.
    detail     text        not null default '' check (octet_length(detail) <= 1000),
    -- The limit that refused, and when it admits the next code.
    limited_by text,
    until      timestamptz,
    -- The key of sign_in_limits, if it is that of a browser, or of the address in a network, which the address alone does not tell.
    limit_key  bytea,
    primary key (key, id)
);

create index sign_in_events_at on sign_in_events (at);

-- Links to a partner's pages, and the sessions of the browsers that opened them. A link becomes a session, once.
create table portal_sessions (
    client_id   uuid        not null references clients (client_id),
    session_id  uuid        not null,
    -- SHA-256 of 256 random bits: of the link's until it is opened, then of those that only the browser holds.
    secret_hash bytea       not null check (octet_length(secret_hash) = 32),
    -- The audit log names who uses it partner:NAME.
    name        text        not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    read_only   boolean     not null,
    created_by  text        not null,
    created_at  timestamptz not null,
    opened_at   timestamptz,
    -- When the link can no longer be opened, then when the session ends.
    expires_at  timestamptz not null,
    primary key (client_id, session_id)
);

create unique index portal_sessions_secret on portal_sessions (client_id, secret_hash);
create index portal_sessions_expiry on portal_sessions (expires_at);

-- The last change of its registration that a partner asked the operator for. It stays with its answer
-- until the next one.
create table change_requests (
    client_id    uuid        primary key references clients (client_id),
    request_id   uuid        not null,
    state        text        not null check (state in ('open', 'approved', 'refused')),
    -- The fields that change, with the values that they get: those of client.Registration in JSON.
    wanted       jsonb       not null check (octet_length(wanted::text) <= 32768),
    -- The logo that is wanted, while the request is open. Null: it does not change.
    logo         text        check (octet_length(logo) <= 64),
    logo_content bytea       check (octet_length(logo_content) <= 65536),
    requested_by text        not null,
    requested_at timestamptz not null,
    answered_by  text,
    answered_at  timestamptz,
    answer       text        not null default '' check (char_length(answer) <= 500),
    constraint change_requests_answered check ((state = 'open') = (answered_by is null) and (answered_by is null) = (answered_at is null)),
    constraint change_requests_logo check ((logo is null) = (logo_content is null))
);

create index change_requests_open on change_requests (requested_at, client_id) where state = 'open';

-- The numbers of what happened on each day (UTC), by client, and in all under the nil UUID. Rows are kept for 400 days and contain nothing about users. A
-- metric of which nothing happened has no row. Day of internal/admin/usage names the metrics, and tells where each is from: servers add what they
-- have seen, some seconds late, and a sweep adds how much what it reads in other tables has changed.
create table usage_days (
    client_id uuid   not null,
    day       date   not null,
    metric    text   collate "C" not null,
    n         bigint not null,
    primary key (client_id, day, metric)
) with (fillfactor = 70);

-- For one metric of all clients, and to delete old days. Without n, so that an update of n changes no index.
create index usage_days_day on usage_days (day, metric);

-- Refused requests of each client and kind that client_errors (0008) no longer has, by day (UTC). Rows are kept for 35 days.
create table client_error_counts (
    client_id     uuid     not null references clients (client_id),
    authenticated boolean  not null,
    day           date     not null,
    operation     text     collate "C" not null,
    status        smallint not null,
    code          text     collate "C" not null,
    requests      bigint   not null check (requests > 0),
    primary key (client_id, authenticated, day, operation, status, code)
) with (fillfactor = 70);

create index client_error_counts_day on client_error_counts (day);

-- How far the sweep is that keeps usage_days, in one row. Its lock is the turn of the server that sweeps.
create table usage_folds (
    id            int         primary key default 1 check (id = 1),
    next_day      date,                 -- the first day that is not final; null: none was folded yet
    counted_until timestamptz not null  -- connections that lapsed until then have been counted
);

insert into usage_folds (counted_until) values ('2000-01-01Z');

-- How long requests of each operation took in each hour, and which part of it the database and the limiter had. Rows are kept for eight days.
create table latency_hours (
    hour        timestamptz not null,
    operation   text        collate "C" not null,
    requests    bigint      not null,
    total_us    bigint      not null, -- the sum of all durations, in microseconds
    database_us bigint      not null,
    limiter_us  bigint      not null,
    durations   bigint[]    not null, -- by how long they took, in the buckets of usage_hours (0008)
    primary key (hour, operation)
) with (fillfactor = 50);

-- +goose Down

drop table latency_hours;
drop table usage_folds;
drop table client_error_counts;
drop table usage_days;
drop table change_requests;
drop table portal_sessions;
drop table sign_in_events;
drop table notices;
