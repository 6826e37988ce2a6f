-- +goose Up

-- Requests of each client by hour. Servers add to the same rows in batches, some seconds late. Rows are kept for 35 days and contain nothing
-- about users.
create table usage_hours (
    client_id uuid        not null references clients,
    hour      timestamptz not null,
    operation text        collate "C" not null,
    -- The HTTP status of the answers: 429 apart from other refusals.
    status    smallint    not null check (status between 100 and 599),
    requests  bigint      not null check (requests > 0),
    -- Durations: one number for each bucket of internal/usage, with the sum requests.
    durations bigint[]    not null,
    primary key (client_id, hour, operation, status)
) with (fillfactor = 50);

create index usage_hours_hour on usage_hours (hour);

-- Requests by minute that the limiter charged to a client's budget, which is per minute.
create table usage_minutes (
    client_id uuid        not null references clients,
    minute    timestamptz not null,
    charged   bigint      not null check (charged > 0),
    primary key (client_id, minute)
) with (fillfactor = 70);

create index usage_minutes_minute on usage_minutes (minute);

-- Adds two rows of buckets, of which one may be longer.
create function add_counts(bigint[], bigint[]) returns bigint[]
    language sql immutable
return (
    select array_agg(coalesce(a, 0) + coalesce(b, 0) order by bucket)
    from unnest($1, $2) with ordinality as t (a, b, bucket)
);

-- The latest refused requests of each client with the reason, for support: fixed phrases of the service, without values that were sent.
-- Requests without proof of the client are separate, so that nobody can displace the client's own.
create table client_errors (
    client_id     uuid        not null references clients,
    authenticated boolean     not null,
    at            timestamptz not null,
    error_id      uuid        not null default gen_random_uuid(),
    operation     text        not null,
    status        smallint    not null check (status between 400 and 599),
    code          text        not null,
    reason        text        not null,
    -- How many there were within some seconds. at is the time of the last.
    requests      bigint      not null check (requests > 0),
    primary key (client_id, authenticated, at, error_id)
);

create index client_errors_at on client_errors (at);

-- +goose Down

drop table client_errors;
drop table usage_minutes;
drop table usage_hours;
drop function add_counts;
