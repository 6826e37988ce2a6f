-- +goose Up

-- The first step of a removal: from this release on, programs call this function in place of is_secret_of.
create function next_is_secret_of(presented bytea, secret_hash bytea, previous_hash bytea, previous_until timestamptz, expected timestamptz)
    returns boolean
    language sql stable parallel safe
    return presented = secret_hash or (presented = previous_hash and previous_until > believed_time(expected));

-- +goose Down

drop function next_is_secret_of;
