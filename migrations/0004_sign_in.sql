-- +goose Up

-- One-time codes that wait to be entered. A sign-in serves one purpose in one browser, and has the id of that purpose (the authorization
-- request). The row exists with and without an account of the address, so that the two cases cannot be distinguished; user_id tells
-- them apart. A new code replaces the old one.
create table sign_ins (
    sign_in_id uuid        primary key,
    email      text        not null check (octet_length(email) between 3 and 254),
    user_id    uuid,
    -- Random for each code. The code is derived from it with a key that the database does not have.
    seed       bytea       not null check (octet_length(seed) = 16),
    -- The key of sign_in_limits that attempts count towards.
    budget     bytea       not null check (octet_length(budget) = 32),
    attempts   smallint    not null default 0 check (attempts >= 0),
    -- The state of the code's email, as far as its page may tell: the mail server was not reached yet, has taken the email, or could not
    -- be reached, which ends the code. A refused recipient is not shown.
    mail       text        not null default 'waiting' check (mail in ('waiting', 'sent', 'failed')),
    expires_at timestamptz not null
);

create index sign_ins_expiry on sign_ins (expires_at);

-- A change of a user's address ends the user's sign-ins, and counts them first.
create index sign_ins_email on sign_ins (lower(email) collate "C");
create index sign_ins_user on sign_ins (user_id) where user_id is not null;

-- Emails with a code that wait for the mail server. The sign-in, if it still exists, has the seed and the address. On a cluster the table
-- is in one place, because the servers share one queue.
create table code_emails (
    sign_in_id   uuid        primary key,
    seed         bytea       not null check (octet_length(seed) = 16),
    -- Keyed hash of the requesting network. place is how many emails of that network waited already: the first emails of all networks
    -- leave before the second email of any, so that a network with many requests waits behind itself.
    network      bytea       not null check (octet_length(network) = 32),
    place        int         not null check (place >= 0),
    -- The keys of sign_in_limits that counted the code, and the time that they counted.
    limits       bytea[]     not null,
    counted_at   timestamptz not null,
    language     text        not null,
    partner      text        not null,
    -- Path of the page that opens the email's link, without the secret part.
    link_path    text        not null,
    -- These are real time even if a test or the demo shifts the clock, because they bound what servers do.
    put_at       timestamptz not null default now(),
    due_at       timestamptz not null,
    attempts     smallint    not null default 0 check (attempts >= 0),
    leased_until timestamptz
);

create index code_emails_due on code_emails (place, due_at);
create index code_emails_network on code_emails (network);

-- Counters of sign-ins. The key is a keyed hash of an email address, a known browser, a network, or an address and a network. The rule
-- of emails and wrong codes is in internal/account/rule.go.
create table sign_in_limits (
    key      bytea         primary key check (octet_length(key) = 32),
    -- When emails were requested, as far back as the limit looks; at most as many as it allows.
    asked_at timestamptz[] not null,
    last_at  timestamptz   not null,
    -- Attempts at codes since the last sign-in.
    failed   int           not null default 0 check (failed >= 0)
);

create index sign_in_limits_last on sign_in_limits (last_at);

-- Sessions of the account pages. The browser stores the user's id with its secret, so that a session is found by its user like every
-- other row of a user.
create table account_sessions (
    user_id     uuid        not null references users on delete cascade,
    -- SHA-256 of a secret with 256 random bits that only the browser holds.
    secret_hash bytea       not null check (octet_length(secret_hash) = 32),
    expires_at  timestamptz not null,
    primary key (user_id, secret_hash)
);

create index account_sessions_expiry on account_sessions (expires_at);

-- The browsers in which a user has signed in. Each has a budget of codes of its own for 180 days.
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
drop table code_emails;
drop table sign_ins;
