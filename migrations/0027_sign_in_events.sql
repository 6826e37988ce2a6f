-- +goose Up

-- Events of sign-ins of an address within 7 days, for support. The key is a keyed hash of the address, with or without an account.
-- The rows have no code and no address. The id is derived from the event, so that it is stored once: refusals until the same time are one.
create table sign_in_events (
    key        bytea       not null check (octet_length(key) = 32),
    id         uuid        not null,
    at         timestamptz not null,
    sign_in_id uuid        not null,
    event      text        not null check (event ~ '^[a-z]+(_[a-z]+)*$'),
    -- The answer of the mail server without addresses, the number of a wrong attempt, or the operator who lifted the limits.
    detail     text        not null default '' check (octet_length(detail) <= 1000),
    -- The limit that refused, and when it admits the next code.
    limited_by text,
    until      timestamptz,
    -- The key of sign_in_limits, if it is that of a browser, or of the address in a network, which the address alone does not tell.
    limit_key  bytea,
    primary key (key, id)
);

create index sign_in_events_at on sign_in_events (at);

-- The key of sign_in_events for what happens to the email. Servers of before this migration leave it out.
alter table code_emails add column log_key bytea;

-- +goose Down

alter table code_emails drop column log_key;
drop table sign_in_events;
