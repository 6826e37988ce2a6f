-- +goose Up

-- The rate policy of a client over all servers (specification section 8): a token bucket, and a lease for each
-- activity read that runs, one end for each. Unlogged: an admission is no change that must survive a crash of
-- PostgreSQL, and costs no flush of the write-ahead log; after such a crash a client starts with a full bucket.
create unlogged table rate_limits (
    client_id   uuid             primary key references clients on delete cascade,
    tokens      double precision not null check (tokens >= 0),
    refilled_at timestamptz      not null,
    lease_ids   uuid[]           not null,
    lease_ends  timestamptz[]    not null,
    check (cardinality(lease_ids) = cardinality(lease_ends))
) with (fillfactor = 50);

-- +goose Down

drop table rate_limits;
