-- +goose Up

-- Links to a partner's pages, and the sessions of the browsers that opened them. A link becomes a session, once.
create table portal_sessions (
    client_id   uuid        not null references clients (client_id),
    session_id  uuid        not null,
    -- SHA-256 of 256 random bits: of the link's until it is opened, then of those that only the browser holds.
    secret_hash bytea       not null check (octet_length(secret_hash) = 32),
    -- The audit log names who uses it partner:NAME.
    name        text        not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    read_only   boolean     not null,
    created_by  text        not null,
    created_at  timestamptz not null,
    opened_at   timestamptz,
    -- When the link can no longer be opened, then when the session ends.
    expires_at  timestamptz not null,
    primary key (client_id, session_id)
);

create unique index portal_sessions_secret on portal_sessions (client_id, secret_hash);
create index portal_sessions_expiry on portal_sessions (expires_at);

-- +goose Down

drop table portal_sessions;
