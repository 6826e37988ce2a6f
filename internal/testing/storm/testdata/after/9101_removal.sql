-- +goose Up

-- The second step, a release later: programs before 9006 call what is removed here.
drop function is_secret_of(bytea, bytea, bytea, timestamptz);
drop function is_secret_of(bytea, bytea, bytea, timestamptz, timestamptz);
create or replace function connect_oldest_program() returns bigint language sql immutable as 'select 9006::bigint';

-- +goose Down

create function is_secret_of(presented bytea, secret_hash bytea, previous_hash bytea, previous_until timestamptz) returns boolean
    language sql stable parallel safe
    return presented = secret_hash or (presented = previous_hash and previous_until > connect_now());
create function is_secret_of(presented bytea, secret_hash bytea, previous_hash bytea, previous_until timestamptz, expected timestamptz)
    returns boolean
    language sql stable parallel safe
    return presented = secret_hash or (presented = previous_hash and previous_until > believed_time(expected));

create or replace function connect_oldest_program() returns bigint language sql immutable as 'select 10::bigint';
