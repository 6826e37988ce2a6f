-- +goose Up

-- Who is signed in to the account pages, in which browser. The browser names the user beside its secret, so that a
-- session is found by the user like everything else that belongs to one.
create table account_sessions (
    user_id     uuid        not null references users on delete cascade,
    -- SHA-256 of a secret with 256 random bits that only the browser holds.
    secret_hash bytea       not null check (octet_length(secret_hash) = 32),
    expires_at  timestamptz not null,
    primary key (user_id, secret_hash)
);

create index account_sessions_expiry on account_sessions (expires_at);

-- +goose Down

drop table account_sessions;
