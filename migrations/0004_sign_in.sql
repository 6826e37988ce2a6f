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
    -- Path of the page that opens the email's link, without what proves that somebody has read the email.
    link_path    text        not null,
    -- These are real time, also where a test or the demo shifts the clock: they bound what servers do.
    put_at       timestamptz not null default now(),
    due_at       timestamptz not null,
    attempts     smallint    not null default 0 check (attempts >= 0),
    leased_until timestamptz
);

create index code_emails_due on code_emails (turn, due_at);
create index code_emails_network on code_emails (network);

-- What is counted of sign-ins. The key is a keyed hash of whom the count belongs to: an e-mail address, a browser that has signed in
-- to an account before, a network, or an address and a network.
create table sign_in_limits (
    key      bytea         primary key check (octet_length(key) = 32),
    -- When emails were asked for, as far back as the limits look; at most as many instants as they allow.
    asked_at timestamptz[] not null,
    last_at  timestamptz   not null,
    -- Attempts at codes since the last sign-in.
    failed   int           not null default 0 check (failed >= 0)
);

-- The instants that limits look at: those of the day before the last one, or of the hour where there is no limit for a day.
create function still_counted(asked_at timestamptz[], last_at timestamptz, per_day int) returns timestamptz[]
    language sql immutable
return array(select t from unnest(asked_at) as t where t > last_at - case when per_day > 0 then interval '1 day' else interval '1 hour' end);

-- When the limits let the next email be sent: as soon as fewer than per_hour were sent within the hour before, and fewer than per_day
-- within the day before. 0 is no limit.
create function next_email(asked_at timestamptz[], per_hour int, per_day int) returns timestamptz
    language sql immutable
return greatest(
    'epoch',
    case when per_hour > 0 then (
        select t + interval '1 hour' from unnest(asked_at) as t order by t desc offset greatest(per_hour, 1) - 1 limit 1
    ) end,
    case when per_day > 0 then (
        select t + interval '1 day' from unnest(asked_at) as t order by t desc offset greatest(per_day, 1) - 1 limit 1
    ) end
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
drop function next_email;
drop function still_counted;
drop table code_emails;
drop table sign_ins;
