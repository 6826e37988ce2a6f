-- Users, and their sign-ins by one-time codes.

-- name: InsertUser :one
with created as (
    insert into users (user_id, email, timezone, registered_on, created_at)
    values (@user_id::uuid, @email, @timezone, @registered_on, connect_now())
    returning *
), audited as (
    insert into audit_log (subject, actor, action, user_id)
    select user_id, @actor::text, 'user.created', user_id from created
)
select user_id, email, timezone, registered_on, created_at, language from created;

-- name: UpdateUser :one
with changed as (
    update users
    set email = coalesce(sqlc.narg(email)::text, email), timezone = coalesce(sqlc.narg(timezone)::text, timezone),
        registered_on = coalesce(sqlc.narg(registered_on)::date, registered_on)
    where users.user_id = @user_id::uuid
    returning *
), audited as (
    insert into audit_log (subject, actor, action, user_id, detail)
    select user_id, @actor::text, 'user.changed', user_id,
        jsonb_build_object('email', sqlc.narg(email)::text is not null, 'timezone', sqlc.narg(timezone)::text is not null,
            'registered_on', sqlc.narg(registered_on)::date is not null)
    from changed
)
select user_id, email, timezone, registered_on, created_at, language from changed;

-- name: DeleteAddress :exec
-- until 1.3.0: a program of 1.0.0 has written the second key, which is another one only for an address that is not ASCII. It is compared with nothing else.
delete from user_addresses where address in (@address, lower(@email)) and user_id = @user_id;

-- name: InsertAddress :exec
insert into user_addresses (address, user_id, email) values (@address, @user_id, @email);

-- name: DeleteSessionsOf :exec
delete from account_sessions where user_id = any (@user_ids::uuid[]);

-- name: GetUser :one
select * from users where user_id = @user_id;

-- name: GetTimezone :one
select timezone from users where user_id = @user_id;

-- name: GetUserOfAddress :one
select user_id from user_addresses where address = @address;

-- name: ListUnusualAddresses :many
-- Those that are not ASCII, or whose domain may not be the name of a host, with the condition of their index.
select address, user_id, email from user_addresses
where address > @after and (address || email ~ '[^\x01-\x7f]' or address !~ '^[^@]+@([a-z0-9]+(-[a-z0-9]+)*\.)*[a-z]+$')
order by address
limit sqlc.arg(row_limit)::int;

-- name: MoveAddress :execrows
-- Gives an address its key. An address that has it already is a unique violation.
update user_addresses set address = @key where address = @address and user_id = @user_id;

-- name: RemoveAddress :exec
delete from user_addresses where address = @address and user_id = @user_id;

-- name: WasDeleted :one
-- The id of a deleted user cannot be reused while the audit log contains it: credentials with it may still exist, and the log would
-- confuse two people.
select exists (select 1 from audit_log e where e.subject = @user_id::uuid and e.action = 'user.deleted')::bool;

-- name: ListEmails :many
select user_id, email from users where user_id = any (@user_ids::uuid[]);

-- name: ListUsers :many
select * from users where user_id > @after order by user_id limit sqlc.arg(row_limit)::int;

-- name: LockUser :one
-- Keeps other acts on the user waiting, and nobody who adds rows of the user, as an import does until it ends.
select email, language from users where user_id = @user_id for no key update;

-- name: LockUserToDelete :one
-- Waits for concurrent statements that add rows of this user, and keeps later ones out.
select email from users where user_id = @user_id for update;

-- name: SetLanguage :exec
update users set language = @language::text where user_id = @user_id;

-- name: DeleteSignInsOf :exec
-- Includes sign-ins that began when the address had no account.
delete from sign_ins where address = any (@addresses::text[]) or user_id = any (@user_ids::uuid[]);

-- name: DeleteSignIn :exec
delete from sign_ins where sign_in_id = @sign_in_id;

-- name: CountSignInsOf :one
-- The sign-ins under way that DeleteSignInsOf would delete, counted up to a thousand.
select count(*) from (
    select 1 from sign_ins i
    where (i.address = @address::text or i.user_id = @user_id::uuid) and not i.used and i.expires_at > connect_now() limit 1000
) as i;

-- name: CountSessionsOf :one
-- The user's sessions of the account pages, counted up to a thousand, and known browsers.
select (select count(*) from (
        select 1 from account_sessions s where s.user_id = @user_id and s.expires_at > connect_now() limit 1000
    ) as s) as sessions,
    (select count(*) from known_browsers b
    where b.user_id = @user_id and b.signed_in_at > connect_now() - interval '180 days') as browsers
from users u
where u.user_id = @user_id;

-- name: DeleteUser :exec
-- Rows that reference the user with "on delete cascade" are deleted with it.
delete from users where user_id = @user_id;

-- name: InsertUserDeleted :exec
insert into audit_log (subject, actor, action, user_id, detail)
values (@user_id::uuid, @actor::text, 'user.deleted', @user_id::uuid, jsonb_build_object('connections', @connections::bigint));

-- name: FindForSignIn :one
-- Always returns one row, so that an address without an account causes the same statements.
select a.user_id, a.email, issue_time(@expected::pg_catalog.timestamptz)::timestamptz as now
from (select @address::text as address) as typed
left join user_addresses a on a.address = @address::text;

-- name: GetCounter :one
-- The emails that a limit has counted. internal/domain/account/rule.go decides what they mean.
select asked_at from sign_in_limits where key = @key;

-- name: PutCounter :execrows
-- Compare and set: stores the emails of a limit unless another transaction has changed them since they were read.
insert into sign_in_limits as l (key, asked_at, last_at)
values (@key, @asked_at::timestamptz[], @at::timestamptz)
on conflict (key) do update set asked_at = excluded.asked_at, last_at = greatest(l.last_at, excluded.last_at)
where l.asked_at = @seen::timestamptz[];

-- name: UncountEmail :exec
-- Removes an email from a limit. last_at stays, because it decides when failed attempts are forgotten.
update sign_in_limits set asked_at = array_remove(asked_at, @at::timestamptz) where key = @key;

-- name: PutSignIn :exec
-- A new code replaces the old one and its attempts. The last four old ones can be told from wrong ones.
-- Citus crashes at a slice of an array here.
insert into sign_ins as s (sign_in_id, email, address, user_id, seed, budget, expires_at)
values (@sign_in_id, @email, @address::text, @user_id, @seed, @budget, @expires_at)
on conflict (sign_in_id) do update
set email = excluded.email, address = excluded.address, user_id = excluded.user_id, seed = excluded.seed, budget = excluded.budget, attempts = 0,
    mail = 'waiting', used = false, expires_at = excluded.expires_at, older_seeds = trim_array(array[s.seed] || s.older_seeds, greatest(cardinality(s.older_seeds) - 3, 0));

-- name: GetSeeds :one
select seed, older_seeds, budget from sign_ins where sign_in_id = @sign_in_id;

-- name: PutCodeEmail :exec
-- The email of a new code replaces the waiting one.
insert into code_emails (sign_in_id, seed, network, place, limits, counted_at, language, partner, link_path, log_key, browser, due_at)
values (@sign_in_id, @seed, @network, @place, @limits, @counted_at, @language, @partner, @link_path, @log_key, @browser, now() + @delay::interval)
on conflict (sign_in_id) do update
set seed = excluded.seed, network = excluded.network, place = excluded.place, limits = excluded.limits,
    counted_at = excluded.counted_at, language = excluded.language, partner = excluded.partner, link_path = excluded.link_path,
    log_key = excluded.log_key, browser = excluded.browser, put_at = excluded.put_at, due_at = excluded.due_at, attempts = 0, leased_until = null;

-- name: ListDueEmails :many
-- Emails in the order in which they leave. busy are the networks for which this server already sends as many emails as it may. Locks nothing
-- and writes nothing.
select sign_in_id from code_emails
where due_at <= now() and (leased_until is null or leased_until <= now()) and network <> all (@busy::bytea[])
order by place, due_at
limit @most::int;

-- name: ClaimCodeEmail :one
-- Leases an email unless another server has, and counts the attempt first, so that attempts are bounded even if the server dies. too_late is
-- an email's age at the end of the lease, because Citus refuses now() in a returning clause.
update code_emails set leased_until = now() + @lease::interval, attempts = attempts + 1
where code_emails.sign_in_id = @sign_in_id and sign_in_id in (
    select w.sign_in_id from code_emails w
    where w.sign_in_id = @sign_in_id and w.due_at <= now() and (w.leased_until is null or w.leased_until <= now())
    for update skip locked)
returning sign_in_id, seed, network, limits, counted_at, language, partner, link_path, log_key, browser, attempts,
    (leased_until - put_at >= @too_late::interval)::bool as late;

-- name: GetCodeToSend :one
select email, user_id, budget, expires_at from sign_ins
where sign_in_id = @sign_in_id and seed = @seed;

-- name: MarkCodeSent :execrows
update sign_ins set mail = 'sent' where sign_in_id = @sign_in_id and seed = @seed and mail <> 'failed';

-- name: MarkCodeFailed :execrows
update sign_ins set mail = 'failed' where sign_in_id = @sign_in_id and seed = @seed and mail = 'waiting';

-- name: DeleteCodeEmail :exec
delete from code_emails where sign_in_id = @sign_in_id and seed = @seed;

-- name: DelayCodeEmail :exec
-- Ends the lease, unless the email was leased again in the meantime.
update code_emails set due_at = now() + @delay::interval, leased_until = null
where sign_in_id = @sign_in_id and seed = @seed and attempts = @attempts;

-- name: CountCodeEmails :one
-- The emails that wait or are being sent, and the age of the oldest in seconds.
select count(*) as waiting, coalesce(extract(epoch from now() - min(put_at)), 0)::float8 as oldest from code_emails;

-- name: TakeAttempt :one
-- Spends an attempt before the code is compared, so that concurrent attempts cannot exceed the limit.
update sign_ins
set attempts = attempts + 1
where sign_in_id = @sign_in_id and attempts < @most::int and expires_at > connect_now() and mail <> 'failed'
returning user_id, seed, budget, attempts::int, email;

-- name: ReturnAttempt :exec
update sign_ins set attempts = attempts - 1 where sign_in_id = @sign_in_id;

-- name: CountAttempt :execrows
update sign_in_limits set failed = failed + 1 where key = @key and failed < @most::int;

-- name: CountFailed :one
select failed from sign_in_limits where key = @key;

-- name: GetLink :one
-- The seed of the sign-in's link, and its user.
select user_id, seed, budget, mail, (expires_at <= connect_now())::bool as expired, email
from sign_ins where sign_in_id = @sign_in_id;

-- name: ResetAttempts :exec
update sign_in_limits set failed = 0 where key = @key;

-- name: KnowsBrowser :one
select exists (
    select 1 from known_browsers
    where user_id = @user_id and browser_id = @browser_id and signed_in_at > connect_now() - interval '180 days'
)::bool;

-- name: GetAddressOfBrowser :one
-- The address of a user who has signed in in the browser within a session's time.
select email from users u
where u.user_id = @user_id and exists (
    select 1 from known_browsers b
    where b.user_id = @user_id and b.browser_id = @browser_id and b.signed_in_at > connect_now() - interval '30 minutes'
);

-- name: ForgetBrowsers :exec
-- Makes room for one more browser, so that at most ten are known: removes the oldest, and the one that is replaced.
delete from known_browsers
where known_browsers.user_id = @user_id and (
    known_browsers.browser_id = @replaced or known_browsers.browser_id in (
        select browser_id from known_browsers
        where user_id = @user_id and browser_id <> @replaced
        order by signed_in_at desc, browser_id
        offset 9
    )
);

-- name: GetFirstSignIn :one
-- until 1.3.0: rows of 1.0.0 have no first sign-in.
select coalesce(first_signed_in_at, signed_in_at)::timestamptz from known_browsers where user_id = @user_id and browser_id = @browser_id;

-- name: InsertBrowser :exec
insert into known_browsers (user_id, browser_id, name, signed_in_at, first_signed_in_at)
values (@user_id, @browser_id, @name, connect_now(), sqlc.narg(first));

-- name: ListBrowsers :many
select browser_id, name, signed_in_at, first_signed_in_at from known_browsers
where user_id = @user_id and signed_in_at > connect_now() - interval '180 days'
order by signed_in_at desc, browser_id;

-- name: ForgetBrowser :exec
delete from known_browsers where user_id = @user_id and browser_id = @browser_id;

-- name: DeleteBrowsersOf :exec
delete from known_browsers where user_id = any (@user_ids::uuid[]);

-- name: HasHiddenSession :one
-- One that ends by then, or that is of no known browser: none has signed in when it began, half an hour before its end.
select exists (
    select 1 from account_sessions s
    where s.user_id = @user_id and s.expires_at > connect_now() and (s.expires_at <= @until::timestamptz or not exists (
        select 1 from known_browsers b
        where b.user_id = @user_id and b.signed_in_at between s.expires_at - interval '31 minutes' and s.expires_at - interval '29 minutes'
    ))
);

-- name: EndOtherSessions :exec
delete from account_sessions where user_id = @user_id and secret_hash <> @secret_hash;

-- name: DeletePastBrowsers :execrows
delete from known_browsers where (user_id, browser_id) in (
    select user_id, browser_id from known_browsers where signed_in_at <= @before::timestamptz limit 50000
);

-- name: GetSignIn :one
select email, attempts::int as attempts, (expires_at <= connect_now())::bool as expired,
    extract(epoch from expires_at - connect_now())::float8 as seconds_left, mail, budget
from sign_ins
where sign_in_id = @sign_in_id;

-- name: DeleteExpiredSignIns :execrows
-- The limit here and below keeps the statement within its timeout. A row that has got a new code since it was found stays: PostgreSQL checks
-- the outer condition again.
delete from sign_ins where expires_at <= @before::timestamptz and sign_in_id in (
    select sign_in_id from sign_ins where expires_at <= @before::timestamptz limit 50000
);

-- name: DeletePastLimits :execrows
-- Limits without emails that count, and without failed attempts that count.
delete from sign_in_limits where last_at <= @emails_before::timestamptz and (failed = 0 or last_at <= @failed_before::timestamptz) and key in (
    select key from sign_in_limits
    where last_at <= @emails_before::timestamptz
        and (failed = 0 or last_at <= @failed_before::timestamptz)
    limit 50000
);

-- name: Now :one
select connect_now()::timestamptz;

-- name: AddSignInEvent :exec
-- An event that is stored already changes nothing and writes nothing.
insert into sign_in_events (key, id, at, sign_in_id, event, detail, limited_by, until, limit_key)
values (@key, @id, @at, @sign_in_id, @event, @detail, sqlc.narg(limited_by), sqlc.narg(until), @limit_key)
on conflict do nothing;

-- name: ListSignInEvents :many
select * from sign_in_events where key = @key order by at desc, id limit @most::int;

-- name: ListWaiting :many
-- Those of sign-ins whose email waits for the mail server.
select sign_in_id from code_emails where sign_in_id = any (@sign_in_ids::uuid[]);

-- name: DeletePastSignInEvents :execrows
delete from sign_in_events where (key, id) in (
    select key, id from sign_in_events where at <= @before::timestamptz limit 50000
);

-- name: ListLimitKeys :many
-- Limits that have counted sign-ins of an address, and that the address alone does not tell.
select distinct limit_key from sign_in_events where key = @key and limit_key is not null order by limit_key;

-- name: LiftLimit :exec
update sign_in_limits set asked_at = '{}', failed = 0 where key = @key;

-- name: InsertLimitsLifted :exec
insert into audit_log (subject, actor, action, user_id)
values (@user_id::uuid, @actor::text, 'sign_in.limits_lifted', @user_id::uuid);

-- name: UseSignIn :execrows
-- Only once. The seed identifies the accepted code: a newer one may have replaced it.
update sign_ins set used = true
where sign_in_id = @sign_in_id and user_id = @user_id::uuid and seed = @seed and not used and expires_at > connect_now();

-- name: InsertSession :exec
insert into account_sessions (user_id, secret_hash, expires_at)
values (@user_id, @secret_hash, issue_time(@expected::pg_catalog.timestamptz) + @lifetime::interval);

-- name: GetSession :one
select u.*
from account_sessions s
join users u using (user_id)
where s.user_id = @user_id and s.secret_hash = @secret_hash and s.expires_at > connect_now();

-- name: EndSession :exec
delete from account_sessions where user_id = @user_id and secret_hash = @secret_hash;

-- name: DeleteExpiredSessions :execrows
delete from account_sessions where (user_id, secret_hash) in (
    select user_id, secret_hash from account_sessions where expires_at <= @before::timestamptz limit 50000
);

-- name: CountTimezones :many
-- Reads the whole table.
select timezone, count(*) as users from users group by timezone order by timezone;
