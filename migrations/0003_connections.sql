-- +goose Up

-- One row for each pair of user and client, from the first consent on. It outlives disconnects, because grant_id is stable and
-- version never decreases (specification 2.2). Version 0 is a consent whose code has not been exchanged yet: no list shows it.
-- There is no table of tokens: the row holds the generation and the hash of its one current refresh token.
--
-- A refresh updates the row in place: no index covers a column that it writes, and the fill factor leaves room on the page, so the
-- update is heap-only.
create table connections (
    user_id            uuid        not null references users on delete cascade,
    client_id          uuid        not null references clients,
    grant_id           uuid        not null,
    version            bigint      not null check (version >= 0),
    state              text        not null check (state in ('authorized', 'revoked', 'disconnected')),
    scopes             scope_set   not null,
    history_from       date        not null,
    authorized_at      timestamptz not null,
    refresh_generation bigint      not null check (refresh_generation >= 0), -- 0: an authorization that was lost, whose token has not come yet
    refresh_hash       bytea       check (octet_length(refresh_hash) = 32),
    refresh_deadline   timestamptz not null,
    -- When the client last read, accurate to an hour, for the user and the operator. It is written at most once an hour, so that
    -- most reads write nothing.
    last_read_at       timestamptz,
    primary key (user_id, client_id),
    constraint connections_refresh_token check ((state = 'authorized') = (refresh_hash is not null)),
    constraint connections_consented check (version > 0 or state = 'disconnected')
) with (fillfactor = 50);

-- For the operator's list of a client's connections. No update of a connection changes either column.
create index connections_client on connections (client_id, user_id);

-- The connections that end when a client is offboarded. A refresh does not touch it.
create index connections_live on connections (client_id) where state <> 'disconnected';

-- The rules of connections. PostgreSQL inlines these functions, too.

-- Whether the credentials of a connection work: it is authorized and was refreshed in time.
create function is_authorized(state text, refresh_deadline timestamptz) returns boolean
    language sql stable parallel safe
    return state = 'authorized' and refresh_deadline > connect_now();

-- The state as people see it. A connection lapses when its refresh deadline passes. That is derived and never stored.
create function connection_state(state text, refresh_deadline timestamptz) returns text
    language sql stable parallel safe
    return case when state = 'authorized' and not is_authorized(state, refresh_deadline) then 'lapsed' else state end;

-- Whether an authentic refresh token of a client proves that commits were lost: it has not lapsed, and is of a later version or generation
-- than its connection, whose row is from a backup or from a replica that took over. When it lapses depends on when it was issued, because
-- the row's deadline is from before. A token that is older than the authorization is of a version that was lost and has begun anew since:
-- it proves nothing. Servers' clocks, which say when a token was issued, differ by less than a minute. A connection that
-- has ended stays ended.
create function is_ahead(token_version bigint, token_generation bigint, issued_at timestamptz, inactivity interval,
    state text, version bigint, refresh_generation bigint, authorized_at timestamptz) returns boolean
    language sql stable parallel safe
    return (token_version, token_generation) > (version, refresh_generation) and issued_at > authorized_at - interval '1 minute'
        and issued_at > connect_now() - inactivity and state = 'authorized';

-- The user and the client of each grant. A disconnect names only the grant (specification 4.10), and this table routes it. There
-- is no foreign key to the user, whose rows may be on another node: the deletion of a user deletes these rows.
create table grant_directory (
    grant_id  uuid primary key,
    user_id   uuid not null,
    client_id uuid not null
);

-- Access tokens that were revoked individually. A row is needed until its token would have expired anyway, 300 s at most.
create table revoked_access_tokens (
    user_id    uuid        not null references users on delete cascade,
    token_id   uuid        not null,
    expires_at timestamptz not null,
    primary key (user_id, token_id)
);

create index revoked_access_tokens_expiry on revoked_access_tokens (expires_at);

-- Authorization requests in which a user has signed in (specification 3.1). Until then a request is sealed in the browser's cookie
-- and not stored. The row stays until the request expires, so that a request is decided once.
create table authorization_requests (
    request_id     uuid        primary key,
    -- SHA-256 of a secret that only the browser that opened the request holds.
    browser_hash   bytea       not null check (octet_length(browser_hash) = 32),
    client_id      uuid        not null references clients,
    redirect_uri   text        not null check (octet_length(redirect_uri) <= 2048),
    scopes         scope_set   not null,
    state          text        not null check (octet_length(state) between 22 and 2048),
    code_challenge bytea       not null check (octet_length(code_challenge) = 32),
    expires_at     timestamptz not null,
    -- The user who signed in for this request only, the SHA-256 of the secret that the browser received for it, and the user's
    -- calendar day when the consent was first shown. The request ends if the user is deleted.
    user_id        uuid,
    session_hash   bytea check (octet_length(session_hash) = 32),
    consent_day    date,
    -- Allowed or denied by the user, or ended by a change of the user's address.
    decided        boolean     not null default false,
    constraint authorization_requests_session check ((user_id is null) = (session_hash is null)),
    constraint authorization_requests_consent check (consent_day is null or user_id is not null)
);

create index authorization_requests_expiry on authorization_requests (expires_at);

-- A change of a user's address ends that user's requests, and counts them first.
create index authorization_requests_user on authorization_requests (user_id) where user_id is not null;

-- +goose Down

drop table authorization_requests;
drop table revoked_access_tokens;
drop table grant_directory;
drop function is_ahead;
drop function connection_state;
drop function is_authorized;
drop table connections;
