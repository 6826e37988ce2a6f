-- +goose Up

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
