-- +goose Up

-- Whether a search finds a client: a part of its name or of its contact's address, or the beginning of its id. An empty text finds all.
create function is_found(text_of_query text, client_id uuid, name text, contact_email text) returns boolean
    language sql immutable parallel safe
    return text_of_query = '' or position(lower(text_of_query) in lower(name)) > 0 or position(lower(text_of_query) in lower(contact_email)) > 0
        or starts_with(client_id::text, lower(text_of_query));

-- +goose Down

drop function is_found;
