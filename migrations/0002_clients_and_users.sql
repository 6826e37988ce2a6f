-- +goose Up

-- A set of scopes (specification 2.1) as bits: 1 daily_steps:read, 2 cycling_daily:read, 4 cycling_activities:read.
create domain scope_set as smallint check (value between 1 and 7);

-- Registrations of partner companies. Limits of the rate policy: specification section 8.
create table clients (
    client_id           uuid        primary key,
    name                text        not null check (char_length(name) between 1 and 100),
    callback_url        text        not null check (callback_url like 'https://%' and octet_length(callback_url) <= 2048),
    scopes              scope_set   not null,
    -- SHA-256 of a secret with 256 random bits, which makes a slow hash unnecessary.
    secret_hash         bytea       not null check (octet_length(secret_hash) = 32),
    -- The previous secret, and until when it still works. Both are null without an overlap.
    previous_secret_hash  bytea     check (octet_length(previous_secret_hash) = 32),
    previous_secret_until timestamptz,
    status              text        not null default 'active' check (status in ('active', 'disabled', 'offboarded')),
    requests_per_minute integer     not null check (requests_per_minute between 1 and 1000000),
    burst               integer     not null check (burst between 1 and 1000000),
    concurrent_reads    integer     not null check (concurrent_reads between 1 and 10000),
    -- Empty if there is none.
    contact_email       text        not null default '' check (octet_length(contact_email) <= 254),
    homepage_url        text        not null default '' check (octet_length(homepage_url) <= 2048),
    privacy_url         text        not null default '' check (octet_length(privacy_url) <= 2048),
    terms_url           text        not null default '' check (octet_length(terms_url) <= 2048),
    -- The file name under which the logo is served: a hash of its content. Empty if there is none.
    logo                text        not null default '' check (octet_length(logo) <= 64),
    -- How many webhook events a server sends to the client concurrently.
    webhook_parallel    smallint    not null default 8 check (webhook_parallel between 1 and 64),
    created_at          timestamptz not null,
    constraint clients_previous_secret check ((previous_secret_hash is null) = (previous_secret_until is null))
);

-- For the operator's list of clients.
create index clients_created on clients (created_at, client_id);

-- The rules of clients. PostgreSQL inlines these functions into the statements that call them (TestRulesAreInlined).

-- Whether a client may act. A disabled or offboarded one may not.
create function is_active(status text) returns boolean
    language sql immutable parallel safe
    return status = 'active';

-- Whether a client is registered for an authorization request with this callback and these scopes, and may act.
create function is_registered_for(redirect_uri text, requested smallint, status text, callback_url text, allowed smallint) returns boolean
    language sql immutable parallel safe
    return is_active(status) and callback_url = redirect_uri and allowed & requested = requested;

-- Whether a client's secret has this hash. The previous secret counts until its overlap ends. Secrets are 256 random bits, so the
-- time that the comparison takes reveals nothing.
create function is_secret_of(presented bytea, secret_hash bytea, previous_hash bytea, previous_until timestamptz) returns boolean
    language sql stable parallel safe
    return presented = secret_hash or (presented = previous_hash and previous_until > connect_now());

-- Logos of clients. They have their own table because every request reads the client's row.
create table client_logos (
    client_id uuid  primary key references clients,
    logo      text  not null check (octet_length(logo) between 1 and 64),
    content   bytea not null check (octet_length(content) between 1 and 65536)
);

create table users (
    user_id       uuid        primary key,
    email         text        not null check (octet_length(email) between 3 and 254),
    -- A name of the time zone database. It decides the user's calendar day (specification 2.2).
    timezone      text        not null check (octet_length(timezone) between 1 and 64),
    registered_on date        not null check (registered_on between '1900-01-01' and '9999-12-31'),
    created_at    timestamptz not null
);

-- The user of an address. The lookup is the same with and without an account. Addresses that differ only in case are the same:
-- address is in lower case, email is as it was registered.
create table user_addresses (
    address text collate "C" primary key check (address = lower(email)),
    user_id uuid not null,
    email   text not null
);

-- Sessions of the operator's console.
create table operator_sessions (
    -- SHA-256 of a secret with 256 random bits that only the browser holds.
    secret_hash bytea       primary key check (octet_length(secret_hash) = 32),
    -- SHA-256 of the operator token of the sign-in: the session ends with the token.
    token_hash  bytea       not null check (octet_length(token_hash) = 32),
    expires_at  timestamptz not null
);

create index operator_sessions_expiry on operator_sessions (expires_at);

-- +goose Down

drop table operator_sessions;
drop table user_addresses;
drop table users;
drop table client_logos;
drop table clients;
drop function is_secret_of;
drop function is_registered_for;
drop function is_active;
drop domain scope_set;
