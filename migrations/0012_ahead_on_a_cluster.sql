-- +goose Up

-- is_ahead (0003) without a subtraction from a column: Citus refuses it in a statement that writes, so that no token could be revoked or
-- recovered on a cluster.
create or replace function is_ahead(token_version bigint, token_generation bigint, issued_at timestamptz, inactivity interval,
    state text, version bigint, refresh_generation bigint, authorized_at timestamptz) returns boolean
    language sql stable parallel safe
    return (token_version, token_generation) > (version, refresh_generation) and issued_at + interval '1 minute' > authorized_at
        and issued_at > connect_now() - inactivity and state = 'authorized';

-- +goose Down

create or replace function is_ahead(token_version bigint, token_generation bigint, issued_at timestamptz, inactivity interval,
    state text, version bigint, refresh_generation bigint, authorized_at timestamptz) returns boolean
    language sql stable parallel safe
    return (token_version, token_generation) > (version, refresh_generation) and issued_at > authorized_at - interval '1 minute'
        and issued_at > connect_now() - inactivity and state = 'authorized';
