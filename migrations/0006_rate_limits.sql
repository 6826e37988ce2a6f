-- +goose Up

-- The rate policy of a client over all servers (specification section 8): what internal/ratelimit keeps of it, in JSON.
-- PostgreSQL compares it and replaces it, and does not read it.
--
-- Unlogged: an admission is no change that must survive a crash of PostgreSQL, and costs no flush of the write-ahead log;
-- after such a crash a client starts with a full bucket and no leases. Nor is a check worth its price here: PostgreSQL
-- reads its text anew for each statement that writes to the table, and each read of activity writes to it twice.
create unlogged table rate_limits (
    client_id uuid primary key,
    state     text not null
) with (fillfactor = 50);

-- +goose Down

drop table rate_limits;
