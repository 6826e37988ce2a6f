-- +goose Up

-- Emails without a code that wait for the mail server. A row has neither an address nor a secret: the server that sends it finds the
-- recipient's address, and sends nothing if there is none any more. The statement that makes a change adds its notice.
create table notices (
    -- A user or a client, so the column has no foreign key. Deleting a user deletes the user's notices.
    recipient    uuid        not null,
    notice_id    uuid        not null default gen_random_uuid(),
    kind         text        not null check (kind ~ '^[a-z]+(_[a-z]+)*$'),
    data         jsonb       not null default '{}',
    put_at       timestamptz not null default connect_now(),
    -- These are real time even if a test or the demo shifts the clock, because they bound what servers do.
    due_at       timestamptz not null default now(),
    attempts     smallint    not null default 0 check (attempts >= 0),
    leased_until timestamptz,
    primary key (recipient, notice_id)
);

create index notices_due on notices (due_at);

-- +goose Down

drop table notices;
