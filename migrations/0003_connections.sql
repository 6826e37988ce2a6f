-- +goose Up

-- One row for a user and a client, from the first consent on; it outlives disconnects, because grant_id is stable and
-- version never goes back (specification 2.2). Version 0 is a consent of which no code was exchanged yet: no connection for
-- anybody to see. There is no table of tokens: the row knows the one refresh token that is current, by its generation and
-- hash. "Lapsed" is refresh_deadline in the past, never stored.
--
-- A refresh changes the row in place: no index holds a column that it writes, and pages keep room for the new
-- version of a row, so that it is a heap-only update.
create table connections (
    user_id            uuid        not null references users on delete cascade,
    client_id          uuid        not null references clients,
    grant_id           uuid        not null,
    version            bigint      not null check (version >= 0),
    state              text        not null check (state in ('authorized', 'revoked', 'disconnected')),
    scopes             scope_set   not null,
    history_from       date        not null,
    authorized_at      timestamptz not null,
    refresh_generation bigint      not null check (refresh_generation >= 1),
    refresh_hash       bytea       check (octet_length(refresh_hash) = 32),
    refresh_deadline   timestamptz not null,
    -- When the client last read, to within an hour, for the user and the operator to see. Written at most once an hour, so
    -- that reads stay reads.
    last_read_at       timestamptz,
    primary key (user_id, client_id),
    check ((state = 'authorized') = (refresh_hash is not null)),
    check (version > 0 or state = 'disconnected')
) with (fillfactor = 50);

-- For the operator's list of a client's connections. No update of a connection changes either column.
create index connections_client on connections (client_id, user_id);

-- What ends when a client is offboarded. A refresh leaves it alone.
create index connections_live on connections (client_id) where state <> 'disconnected';

-- Where a grant lives. A disconnect names nothing but the grant (specification 4.10); this is how it finds the user. No key
-- refers to the user, whose rows may be on another node: whoever deletes a user deletes these rows.
create table grant_directory (
    grant_id  uuid primary key,
    user_id   uuid not null,
    client_id uuid not null
);

-- Access tokens revoked one by one. A row is needed only until its token would have expired anyway, 300 s at most.
create table revoked_access_tokens (
    user_id    uuid        not null references users on delete cascade,
    token_id   uuid        not null,
    expires_at timestamptz not null,
    primary key (user_id, token_id)
);

create index revoked_access_tokens_expiry on revoked_access_tokens (expires_at);

-- Authorizations under way in a browser in which somebody has signed in (specification 3.1). Before that they are sealed in the
-- browser's cookie. The row stays until the request expires, so that a request is decided once.
create table authorization_requests (
    request_id     uuid        primary key,
    -- SHA-256 of the secret that only the browser holds which opened the request.
    browser_hash   bytea       not null check (octet_length(browser_hash) = 32),
    client_id      uuid        not null references clients,
    redirect_uri   text        not null check (octet_length(redirect_uri) <= 2048),
    scopes         scope_set   not null,
    state          text        not null check (octet_length(state) between 22 and 2048),
    code_challenge bytea       not null check (octet_length(code_challenge) = 32),
    expires_at     timestamptz not null,
    -- Who signed in for this request and nothing else, the SHA-256 of the secret that the browser got for it, and this
    -- user's calendar day when the consent was first shown. The user may have been deleted since: then the request has ended.
    user_id        uuid,
    session_hash   bytea check (octet_length(session_hash) = 32),
    consent_day    date,
    -- By the user, or ended with the user's address.
    decided        boolean     not null default false,
    check ((user_id is null) = (session_hash is null)),
    check (consent_day is null or user_id is not null)
);

create index authorization_requests_expiry on authorization_requests (expires_at);

-- What ends with a change of the user's address, and is counted before it.
create index authorization_requests_user on authorization_requests (user_id) where user_id is not null;

-- +goose Down

drop table authorization_requests;
drop table revoked_access_tokens;
drop table grant_directory;
drop table connections;
