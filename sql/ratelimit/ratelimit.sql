-- The rate policy of a client over all servers.

-- name: AdmitRequest :one
-- One round trip: the function locks the client's row, decides and notes it. See its migration.
select outcome::text as outcome, remaining::integer as remaining, reset_seconds::integer as reset_seconds
from admit_request(@client_id, @lease_id, @requests_per_minute, @burst, @concurrent_reads);

-- The two lists stay in the order of the leases' ends.
-- name: ReleaseRequest :exec
update rate_limits r
set lease_ids = r.lease_ids[: array_position(r.lease_ids, @lease_id::uuid) - 1]
        || r.lease_ids[array_position(r.lease_ids, @lease_id::uuid) + 1 :],
    lease_ends = r.lease_ends[: array_position(r.lease_ids, @lease_id::uuid) - 1]
        || r.lease_ends[array_position(r.lease_ids, @lease_id::uuid) + 1 :]
where r.client_id = @client_id and @lease_id::uuid = any (r.lease_ids);
