-- Decides one request of a client under its policy as it is now, and notes it. The outcomes and what they take are those
-- of the function admit_request in PostgreSQL:
--   admitted     one request taken from the bucket, and a lease
--   concurrency  one request taken from the bucket, no lease: as many reads run as the policy allows
--   rate         nothing taken: the bucket holds less than one request
-- Returns the outcome, the whole requests left, and the whole seconds until the bucket holds one, at least 1.
--
-- instant: the clock in microseconds, set before this text.
-- KEYS[1]: hash: credit, and the instant at which it was counted. Without it the bucket is full.
-- KEYS[2]: sorted set: leases by the instant at which each ends.
local lease = ARGV[1]
local per_minute, burst, concurrent = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lease_lifetime = tonumber(ARGV[5])

-- Credit is counted in sixty-millionths of a request: a microsecond brings per_minute of them, without any rounding.
-- Whole numbers are exact here up to 2^53, which is 150 times the largest bucket.
local request = 60000000
local full = burst * request
local credit = full

local stored = redis.call('HMGET', KEYS[1], 'credit', 'counted_at')
if stored[1] then
  local counted_at = tonumber(stored[2])
  -- A clock that was set back neither refills nor empties.
  instant = math.max(instant, counted_at)
  credit = math.min(full, tonumber(stored[1]) + (instant - counted_at) * per_minute)
end

local function reset()
  return math.max(1, math.ceil((request - credit) / per_minute / 1000000))
end

if credit < request then
  return {'rate', 0, reset()}
end
credit = credit - request

local outcome = 'admitted'
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', instant))
if redis.call('ZCARD', KEYS[2]) >= concurrent then
  outcome = 'concurrency'
else
  redis.call('ZADD', KEYS[2], string.format('%.0f', instant + lease_lifetime), lease)
  redis.call('PEXPIRE', KEYS[2], lease_lifetime / 1000)
end

-- A full bucket needs no key, so that a client that rests takes no memory. The minute more is for clocks that differ.
redis.call('HSET', KEYS[1], 'credit', string.format('%.0f', credit), 'counted_at', string.format('%.0f', instant))
redis.call('PEXPIRE', KEYS[1], math.ceil((full - credit) / per_minute / 1000) + 60000)

return {outcome, math.floor(credit / request), reset()}
