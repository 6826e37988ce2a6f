-- name: AdmitRequest :one
-- One round trip: the function locks the client's row, decides and notes it. See its migration.
select outcome::text as outcome, remaining::integer as remaining, reset_seconds::integer as reset_seconds
from admit_request(@client_id, @lease_id, @requests_per_minute, @burst, @concurrent_reads);

-- name: ReleaseRequest :exec
select release_request(@client_id, @lease_id);
