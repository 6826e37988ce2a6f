-- +goose Up

-- The last change of its registration that a partner asked the operator for. It stays with its answer
-- until the next one.
create table change_requests (
    client_id    uuid        primary key references clients (client_id),
    request_id   uuid        not null,
    state        text        not null check (state in ('open', 'approved', 'refused')),
    -- The fields that change, with the values that they get: those of client.Registration in JSON.
    wanted       jsonb       not null check (octet_length(wanted::text) <= 32768),
    -- The logo that is wanted, while the request is open. Null: it does not change.
    logo         text        check (octet_length(logo) <= 64),
    logo_content bytea       check (octet_length(logo_content) <= 65536),
    requested_by text        not null,
    requested_at timestamptz not null,
    answered_by  text,
    answered_at  timestamptz,
    answer       text        not null default '' check (char_length(answer) <= 500),
    constraint change_requests_answered check ((state = 'open') = (answered_by is null) and (answered_by is null) = (answered_at is null)),
    constraint change_requests_logo check ((logo is null) = (logo_content is null))
);

create index change_requests_open on change_requests (requested_at, client_id) where state = 'open';

-- +goose Down

drop table change_requests;
