-- +goose NO TRANSACTION
-- +goose Up

-- New columns. They are null, or have a constant default, in rows of programs of 1.0.0. Locks one table after the other, each for a moment: no
-- row is read. Each statement is a transaction of its own: a request that has one of the tables and waits for another one is not in the way.
-- If the lock of a table is not to be had, all of this runs again.

-- Until all of it has been done, it can be rolled back, and is pending.
insert into goose_db_version (id, version_id, is_applied)
select max(id) + 1, 14, false from goose_db_version having count(*) filter (where version_id = 14) = 0;

alter table webhook_endpoints
    -- A partner, or the operator, pauses a webhook: events are written and wait, and none is sent until it is resumed. A server of 1.0.0 sends
    -- them meanwhile.
    add column if not exists paused_at timestamptz;

alter table webhook_events
    -- The client whose connection an event for the operator is about. Null: the event is for the client itself.
    add column if not exists about_client_id uuid;

-- The operator, who has no row in clients, has a webhook and events, too (operator_id). A client's row is never deleted.
alter table webhook_endpoints drop constraint if exists webhook_endpoints_client_id_fkey;
alter table webhook_events drop constraint if exists webhook_events_client_id_fkey;

alter table clients
    -- Keys of what users see of a name, by which look-alikes are found (internal/domain/client), and the name that they are of. A program of 1.0.0
    -- leaves both as they are, so they count only while that is the client's name.
    add column if not exists looks bigint[],
    add column if not exists looks_of text;

alter table client_errors
    -- The X-Request-ID of the last of these requests, at most twenty.
    add column if not exists request_ids uuid[] not null default '{}',
    -- The grants of the connections that these requests named with credentials of the service. A deleted user's goes with the user.
    add column if not exists grant_ids uuid[] not null default '{}';

alter table daily_steps
    -- When the source saw the total: one that it saw before replaces none (internal/domain/activity). Null: it has not told. A server of 1.0.0
    -- replaces the total and leaves this as it is.
    add column if not exists observed_at timestamptz;

alter table cycling_activities
    -- The same of the ride.
    add column if not exists observed_at timestamptz;

alter table connections
    -- When the client last read each dataset, as last_read_at (0003) is for all of them. They mean nothing while last_read_at is null. A server
    -- of 1.0.0 does not write them: then last_read_at is later than each of them.
    add column if not exists steps_read_at timestamptz,
    add column if not exists cycling_read_at timestamptz,
    add column if not exists rides_read_at timestamptz,
    -- In which the user last allowed it, in words; empty: unknown. It holds for browser_version, that of the connection then, and for the next one,
    -- which the exchange makes: a server of 1.0.0 leaves both as they are.
    add column if not exists browser text not null default '',
    add column if not exists browser_version bigint,
    -- The deadline of which the user was told that the connection has lapsed. Any other is news: a server of 1.0.0 renews refresh_deadline alone.
    add column if not exists lapse_told timestamptz;

alter table users
    -- Of the pages of the user's last sign-in. Null: there was none since this migration.
    add column if not exists language text;

alter table known_browsers
    -- The first sign-in in the browser. Null if signed_in_at is the first one, or a server of 1.0.0 has stored the row.
    add column if not exists first_signed_in_at timestamptz;

alter table code_emails
    -- The key of sign_in_events for what happens to the email. Servers of 1.0.0 leave it out.
    add column if not exists log_key bytea,
    -- Which kind of browser asked, in words, such as Firefox (Windows): the email says it. Empty: unknown, or a server of 1.0.0 has stored the row.
    add column if not exists browser text not null default '';

alter table sign_ins
    -- The seeds of the sign-in's earlier codes, latest first: somebody who enters one of those codes is told so. Servers of 1.0.0 add none.
    add column if not exists older_seeds bytea[] not null default '{}',
    -- The key of the address that was typed, as in user_addresses. Null in rows of servers of 1.0.0.
    add column if not exists address text collate "C",
    -- The sign-in has started a session of the account pages. Until it expires, the same form again leads to the same session. Servers of 1.0.0
    -- delete such a row.
    add column if not exists used boolean not null default false;

alter table authorization_requests
    -- The user's decision (allow, deny or disconnect), the version of the connection that it was about, and the end of the code of an Allow:
    -- the same decision has the same result again. Null: nobody has decided, or a server of 1.0.0 has stored the decision.
    add column if not exists decision text,
    add column if not exists decided_version bigint,
    add column if not exists code_expires_at timestamptz;

alter table servers
    -- When the certificates of the server's listeners end. Null: the listener has none, or the server is of 1.0.0.
    add column if not exists public_certificate_ends timestamptz,
    add column if not exists private_certificate_ends timestamptz;

-- +goose Down

update goose_db_version set is_applied = false where version_id = 14;
-- Paused webhooks are sent again.
alter table webhook_endpoints drop column if exists paused_at;
alter table webhook_endpoints drop constraint if exists webhook_endpoints_client_id_fkey;
alter table webhook_endpoints add constraint webhook_endpoints_client_id_fkey foreign key (client_id) references clients not valid;
alter table webhook_endpoints validate constraint webhook_endpoints_client_id_fkey;
alter table webhook_events drop column if exists about_client_id;
alter table webhook_events drop constraint if exists webhook_events_client_id_fkey;
alter table webhook_events add constraint webhook_events_client_id_fkey foreign key (client_id) references clients not valid;
alter table webhook_events validate constraint webhook_events_client_id_fkey;
alter table clients drop column if exists looks, drop column if exists looks_of;
alter table daily_steps drop column if exists observed_at;
alter table cycling_activities drop column if exists observed_at;
alter table client_errors drop column if exists request_ids, drop column if exists grant_ids;
alter table connections
    drop column if exists steps_read_at, drop column if exists cycling_read_at, drop column if exists rides_read_at,
    drop column if exists browser, drop column if exists browser_version, drop column if exists lapse_told;
alter table users drop column if exists language;
alter table known_browsers drop column if exists first_signed_in_at;
alter table code_emails drop column if exists log_key, drop column if exists browser;
alter table sign_ins drop column if exists older_seeds, drop column if exists address, drop column if exists used;
alter table authorization_requests
    drop column if exists decision, drop column if exists decided_version, drop column if exists code_expires_at;
alter table servers drop column if exists public_certificate_ends, drop column if exists private_certificate_ends;
