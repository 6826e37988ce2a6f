-- +goose Up

-- The six checks of connections (0003) as one function, for 0015. PostgreSQL parses the text of each check for each statement that writes
-- to the table, which was a third of the time of a refresh. The function is written in plpgsql so that it stays parsed and is not inlined.
-- +goose StatementBegin
create function is_connection(version bigint, state text, refresh_generation bigint, refresh_hash bytea) returns boolean
    language plpgsql immutable parallel safe as
$$
begin
    return version >= 0
        and state in ('authorized', 'revoked', 'disconnected')
        and refresh_generation >= 0
        and (refresh_hash is null or octet_length(refresh_hash) = 32)
        and (state = 'authorized') = (refresh_hash is not null)
        and (version > 0 or state = 'disconnected');
end
$$;
-- +goose StatementEnd

-- +goose Down

drop function is_connection;
