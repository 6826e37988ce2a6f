-- +goose Up

-- The rate policy of a client over all servers (specification section 8): a token bucket, and a lease for each
-- activity read that runs. Unlogged: an admission is no change that must survive a crash of PostgreSQL, and costs no
-- flush of the write-ahead log; after such a crash a client starts with a full bucket and no leases.
--
-- It has no checks. PostgreSQL reads the text of a check anew for each statement that writes to its table, and on the one
-- table that each read writes to twice that was a quarter of what the limiter cost. The statements of sql/ and
-- admit_request take from a credit only what it holds, and change both lists of leases alike; the limiter's tests look at
-- what they leave behind.
create unlogged table rate_limits (
    client_id   uuid          primary key references clients on delete cascade,
    -- What is in the bucket, in sixtieths of a request: it refills by requests_per_minute of them a second, without
    -- any rounding, and a request takes 60.
    credit      numeric       not null,
    -- The instant at which credit was counted. It never goes back.
    counted_at  timestamptz   not null,
    lease_ids   uuid[]        not null,
    lease_ends  timestamptz[] not null
) with (fillfactor = 50);

-- Decides one request of a client under its policy as it is now, and notes it:
--   admitted     one request taken from the bucket, and a lease until ReleaseRequest (sql/ratelimit) or for 30 s
--   concurrency  one request taken from the bucket, no lease: as many reads run as the policy allows
--   rate         nothing taken: the bucket holds less than one request
-- remaining: whole requests left. reset_seconds: whole seconds until the bucket holds one, at least 1.
--
-- The lock of the client's row puts its requests in order. Whoever waited for it began earlier than the one before
-- it, so its clock may be behind counted_at, and is then moved up to it.
-- +goose StatementBegin
create function admit_request(
    client uuid, lease uuid, requests_per_minute integer, burst integer, concurrent_reads integer,
    out outcome text, out remaining integer, out reset_seconds integer
) language plpgsql as $$
declare
    bucket  rate_limits;
    instant timestamptz;
begin
    select * into bucket from rate_limits where client_id = client for update;
    if not found then
        insert into rate_limits values (client, 60::numeric * burst, connect_now(), '{}', '{}') on conflict do nothing;
        select * into strict bucket from rate_limits where client_id = client for update;
    end if;

    instant := greatest(connect_now(), bucket.counted_at);
    bucket.credit := least(
        60::numeric * burst,
        bucket.credit + requests_per_minute * extract(epoch from instant - bucket.counted_at));

    if bucket.credit < 60 then
        outcome := 'rate';
    else
        bucket.credit := bucket.credit - 60;
        select coalesce(array_agg(id), '{}'), coalesce(array_agg(ends), '{}')
            into bucket.lease_ids, bucket.lease_ends
            from unnest(bucket.lease_ids, bucket.lease_ends) as running (id, ends)
            where ends > instant;
        if cardinality(bucket.lease_ids) >= concurrent_reads then
            outcome := 'concurrency';
        else
            outcome := 'admitted';
            bucket.lease_ids := bucket.lease_ids || lease;
            bucket.lease_ends := bucket.lease_ends || instant + interval '30 seconds';
        end if;
        update rate_limits
            set credit = bucket.credit, counted_at = instant,
                lease_ids = bucket.lease_ids, lease_ends = bucket.lease_ends
            where client_id = client;
    end if;

    remaining := floor(bucket.credit / 60);
    reset_seconds := greatest(1, ceil((60 - bucket.credit) / requests_per_minute));
end $$;
-- +goose StatementEnd

-- +goose Down

drop function admit_request;
drop table rate_limits;
