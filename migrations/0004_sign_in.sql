-- +goose Up

-- One-time codes that wait to be entered. A sign-in serves one purpose in one browser: its id is the id of that purpose (the
-- authorization request). A row exists whether or not the address has an account, so that the
-- two cases cannot be distinguished; user_id says which it is. A new code replaces the old one.
create table sign_ins (
    sign_in_id uuid        primary key,
    email      text        not null check (octet_length(email) between 3 and 254),
    user_id    uuid,
    -- Random, and another one with each code. The code is made of it with a key that the database does not have.
    seed       bytea       not null check (octet_length(seed) = 16),
    -- What the attempts count towards: a key of sign_in_limits.
    budget     bytea       not null check (octet_length(budget) = 32),
    attempts   smallint    not null default 0 check (attempts between 0 and 5),
    -- How far the code's email has come, as far as its page may tell: the mail server was not reached yet, has taken it, or
    -- could not be reached, which ends the code. That it refuses the recipient is not told.
    mail       text        not null default 'waiting' check (mail in ('waiting', 'sent', 'failed')),
    expires_at timestamptz not null
);

create index sign_ins_expiry on sign_ins (expires_at);

-- What ends with a change of the user's address, and is counted before it.
create index sign_ins_email on sign_ins (lower(email));
create index sign_ins_user on sign_ins (user_id) where user_id is not null;

-- Emails with a code that wait to be handed to the mail server. Whoever sends one finds the seed and the address with the
-- sign-in, if there still is one. In one place on a cluster, so that the servers can take turns.
create table code_emails (
    sign_in_id   uuid        primary key,
    seed         bytea       not null check (octet_length(seed) = 16),
    -- Keyed hash of the network that asked. turn is how many emails of that network waited then: those that come first in
    -- their networks leave before the second of any, so that a network that asks for much waits behind itself.
    network      bytea       not null check (octet_length(network) = 32),
    turn         int         not null check (turn >= 0),
    -- The keys of sign_in_limits that counted the code, and under which instant.
    limits       bytea[]     not null,
    counted_at   timestamptz not null,
    language     text        not null,
    partner      text        not null,
    -- These are real time, also where a test or the demo shifts the clock: they bound what servers do.
    put_at       timestamptz not null default now(),
    due_at       timestamptz not null,
    attempts     smallint    not null default 0 check (attempts >= 0),
    leased_until timestamptz
);

create index code_emails_due on code_emails (turn, due_at);
create index code_emails_network on code_emails (network);

-- Budgets of codes, and of guesses at them. The key is a keyed hash of whom the budget belongs to: an e-mail address, a
-- browser that has signed in to an account before, or a network.
create table sign_in_limits (
    key      bytea         primary key check (octet_length(key) = 32),
    -- When codes were asked for within the last hour; at most as many instants as the limit allows.
    asked_at timestamptz[] not null,
    last_at  timestamptz   not null,
    -- Attempts since the last one that was right.
    failed   int           not null default 0 check (failed >= 0)
);

-- The instants of a sliding hour that ends with its last one.
create function within_hour(asked_at timestamptz[], last_at timestamptz) returns timestamptz[]
    language sql immutable
return array(select t from unnest(asked_at) as t where t > last_at - interval '1 hour');

-- When the limits let the next code be made: as soon as fewer than code_limit (0 is no limit) were made within the hour before;
-- and after 20 failed attempts one an hour, after 100 (NIST SP 800-63B, section 3.2.2) one a day.
create function next_code(asked_at timestamptz[], last_at timestamptz, failed int, code_limit int) returns timestamptz
    language sql immutable
return greatest(
    'epoch',
    case when code_limit > 0 then (
        select t + interval '1 hour' from unnest(asked_at) as t order by t desc offset greatest(code_limit, 1) - 1 limit 1
    ) end,
    case when failed >= 100 then last_at + interval '24 hours' when failed >= 20 then last_at + interval '1 hour' end
);

create index sign_in_limits_last on sign_in_limits (last_at);

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

-- The browsers in which a user has signed in. Each has a budget of codes of its own, for 180 days.
create table known_browsers (
    user_id      uuid        not null references users on delete cascade,
    -- The first half of the SHA-256 of a secret with 256 random bits that only the browser holds.
    browser_id   uuid        not null,
    name         text        not null check (octet_length(name) <= 64),
    signed_in_at timestamptz not null,
    primary key (user_id, browser_id)
);

create index known_browsers_signed_in on known_browsers (signed_in_at);

-- +goose Down

drop table known_browsers;
drop table account_sessions;
drop table sign_in_limits;
drop function next_code;
drop function within_hour;
drop table code_emails;
drop table sign_ins;
