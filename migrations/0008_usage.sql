-- +goose Up

-- What each client asked, counted by minute. Servers add to the same rows, in batches, some seconds late; a row is kept
-- for 35 days. Nothing in it is about a user.
create table usage_minutes (
    client_id uuid        not null references clients,
    minute    timestamptz not null,
    operation text        not null,
    -- The HTTP status of the answers: 429 apart from other refusals.
    status    smallint    not null check (status between 100 and 599),
    requests  bigint      not null check (requests > 0),
    -- How many of them the limiter charged to the client's budget.
    charged   bigint      not null check (charged between 0 and requests),
    -- How many took so long: one number for each bucket of internal/usage, their sum is requests.
    durations bigint[]    not null,
    primary key (client_id, minute, operation, status)
) with (fillfactor = 70);

create index usage_minutes_minute on usage_minutes (minute);

-- Adds two rows of buckets, of which one may be longer.
create function add_counts(bigint[], bigint[]) returns bigint[]
    language sql immutable
return (
    select array_agg(coalesce(a, 0) + coalesce(b, 0) order by bucket)
    from unnest($1, $2) with ordinality as t (a, b, bucket)
);

-- The latest refused requests of each client and why, for support: fixed words of the service, nothing that was sent. Those
-- whose client did not prove who it is are apart, so that nobody else can push out the client's own.
create table client_errors (
    client_id     uuid        not null references clients,
    authenticated boolean     not null,
    at            timestamptz not null,
    error_id      uuid        not null default gen_random_uuid(),
    operation     text        not null,
    status        smallint    not null check (status between 400 and 599),
    code          text        not null,
    reason        text        not null,
    -- How many there were within some seconds, of which at is the last.
    requests      bigint      not null check (requests > 0),
    primary key (client_id, authenticated, at, error_id)
);

create index client_errors_at on client_errors (at);

-- +goose Down

drop table client_errors;
drop table usage_minutes;
drop function add_counts;
