-- +goose Up

-- The clock's time, or the expected time if the clock is not believed. So a clock that jumps neither ends nor lengthens what it decides by
-- this function, in the second before a server notices the jump. PL/pgSQL is never inlined: Citus refuses the clock within a case.
-- +goose StatementBegin
create function believed_time(expected timestamptz) returns timestamptz
    language plpgsql stable parallel safe as
$$ begin return case when is_believed(expected) is false then expected else connect_now() end; end $$;
-- +goose StatementEnd

-- Programs before this migration call is_secret_of (0002) without an expected time.
create function is_secret_of(presented bytea, secret_hash bytea, previous_hash bytea, previous_until timestamptz, expected timestamptz)
    returns boolean
    language sql stable parallel safe
    return presented = secret_hash or (presented = previous_hash and previous_until > believed_time(expected));

-- +goose Down

drop function is_secret_of(bytea, bytea, bytea, timestamptz, timestamptz);
drop function believed_time;
