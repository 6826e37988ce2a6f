-- +goose Up

-- The limiter's state of each client, shared by all servers (specification section 8), as JSON of internal/ratelimit with a
-- version. PostgreSQL compares and replaces it without parsing it.
--
-- The table is unlogged, because an admission need not survive a crash of PostgreSQL and then costs no flush of the write-ahead log. After a
-- crash a client has a full bucket and no leases. There is no check constraint: PostgreSQL would parse its text for each statement that
-- writes to the table, and each read of activity writes to it twice.
create unlogged table rate_limits (
    client_id uuid primary key,
    state     text not null
) with (fillfactor = 50);

-- +goose Down

drop table rate_limits;
