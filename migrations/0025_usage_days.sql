-- +goose Up

-- The events of each day (UTC), by client, and in all under the nil UUID. Rows are kept for 400 days and contain nothing about users.
-- A row of a day without anything is missing.
create table usage_days (
    client_id uuid not null,
    day       date not null,

    -- Servers add what they have seen to these columns, some seconds late.
    refreshed          bigint not null default 0, -- refresh tokens exchanged
    active_users       bigint not null default 0, -- users whose activity was asked for; in all, each user once
    codes_sent         bigint not null default 0,
    codes_tried        bigint not null default 0,
    webhooks_delivered bigint not null default 0,
    webhooks_failed    bigint not null default 0, -- given up
    lapsed             bigint not null default 0,

    -- A sweep replaces these columns by what the tables have. usage_hours:
    requests       bigint not null default 0,
    rate_limited   bigint not null default 0, -- status 429
    refused        bigint not null default 0, -- another 4xx
    failed         bigint not null default 0, -- 5xx
    durations      bigint[] not null default '{}',
    busiest_minute bigint not null default 0, -- of usage_minutes
    active_clients bigint not null default 0, -- with an answered request; in all only
    -- audit_log:
    authorized                bigint not null default 0,
    revoked                   bigint not null default 0, -- by the client
    replayed                  bigint not null default 0, -- revoked because a used refresh token came again
    revoked_by_operator       bigint not null default 0,
    disconnected_by_user      bigint not null default 0,
    disconnected_by_client    bigint not null default 0,
    disconnected_by_operator  bigint not null default 0,
    disconnected_with_account bigint not null default 0, -- the user was deleted
    disconnected_with_client  bigint not null default 0, -- the client was offboarded
    -- connections, as they were when the sweep last looked on that day:
    now_authorized   bigint not null default 0,
    now_lapsed       bigint not null default 0,
    now_revoked      bigint not null default 0,
    now_disconnected bigint not null default 0,

    primary key (client_id, day)
) with (fillfactor = 70);

-- For the clients with most requests of some days, and to delete old days.
create index usage_days_day on usage_days (day) include (client_id, requests);

-- How far the sweep is that keeps usage_days, in one row. Its lock is the turn of the server that sweeps.
create table usage_folds (
    id            int         primary key default 1 check (id = 1),
    next_day      date,                 -- the first day that is not final; null: none was folded yet
    counted_until timestamptz not null  -- connections that lapsed until then have been counted
);

insert into usage_folds (counted_until) values ('2000-01-01Z');

-- The state of a connection (connection_state of 0003) at an instant: for statements that read many, because the clock costs more than the row.
create function connection_state(state text, refresh_deadline timestamptz, at timestamptz) returns text
    language sql immutable parallel safe
    return case when state = 'authorized' and refresh_deadline <= at then 'lapsed' else state end;

-- +goose Down

drop function connection_state(text, timestamptz, timestamptz);
drop table usage_folds;
drop table usage_days;
