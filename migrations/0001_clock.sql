-- +goose Up

-- The one clock of the service: every expiry is decided by it, inside the statement that acts on the row, so that
-- servers whose own clocks differ agree. One instant for the whole of a statement. Tests and the demo shift it for
-- their own connections with the setting connect.clock_offset (an interval).
create function connect_now() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp()
        + coalesce(nullif(current_setting('connect.clock_offset', true), ''), '0')::interval;

-- +goose Down

drop function connect_now();
