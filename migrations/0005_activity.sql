-- +goose Up

-- Recorded totals. There is no surrogate key, so that a read is one range of the primary key.
create table daily_steps (
    user_id uuid    not null references users on delete cascade,
    date    date    not null check (date between '1900-01-01' and '9999-12-31'),
    steps   integer not null check (steps >= 0),
    primary key (user_id, date)
);

-- Corrections by support, added to a recorded total. They never create a date (specification 2.5). A correction that is sent again with
-- the same id replaces itself, even with another date.
create table step_corrections (
    user_id       uuid        not null references users on delete cascade,
    date          date        not null check (date between '1900-01-01' and '9999-12-31'),
    correction_id uuid        not null,
    delta         integer     not null,
    note          text        not null check (char_length(note) <= 1000),
    created_at    timestamptz not null,
    primary key (user_id, date, correction_id),
    unique (user_id, correction_id)
);

-- For the operator's list, newest first.
create index step_corrections_created on step_corrections (user_id, created_at, correction_id);

-- Rides by their recorded, unzoned clock. The primary key is the order in which they are read. source_id is the id of the ride at its
-- source: a ride that is sent again replaces itself, even with another start. The order of the columns avoids padding.
create table cycling_activities (
    user_id         uuid      not null references users on delete cascade,
    start_time      timestamp not null check (start_time >= '1900-01-01' and start_time < '10000-01-01'),
    end_time        timestamp check (end_time >= start_time and end_time < '10000-01-01'),
    distance_meters integer   not null check (distance_meters >= 0),
    source_id       text      collate "C" not null check (octet_length(source_id) between 1 and 128),
    primary key (user_id, start_time, source_id),
    unique (user_id, source_id)
);

-- Adjustments of a day's distance, never of a ride (specification 2.6, 2.7). Their ids work like those of corrections.
create table cycling_adjustments (
    user_id       uuid        not null references users on delete cascade,
    date          date        not null check (date between '1900-01-01' and '9999-12-31'),
    adjustment_id uuid        not null,
    delta_meters  integer     not null,
    note          text        not null check (char_length(note) <= 1000),
    created_at    timestamptz not null,
    primary key (user_id, date, adjustment_id),
    unique (user_id, adjustment_id)
);

create index cycling_adjustments_created on cycling_adjustments (user_id, created_at, adjustment_id);

-- +goose Down

drop table cycling_adjustments;
drop table cycling_activities;
drop table step_corrections;
drop table daily_steps;
