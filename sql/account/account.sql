-- Users, and their sign-ins by one-time codes.

-- name: InsertUser :one
-- The id of a deleted user is not given again: credentials that name it may be about, and the log would take two people
-- for one.
with created as (
    insert into users (user_id, email, timezone, registered_on, created_at)
    select @user_id::uuid, @email, @timezone, @registered_on, connect_now()
    where not exists (select from audit_events e
        where e.user_hash = audit_user(@user_id::uuid) and e.action = 'user.deleted')
    returning *
), noted as (
    insert into audit_events (actor, action, user_hash)
    select 'operator', 'user.created', audit_user(user_id) from created
)
select user_id, email, timezone, registered_on, created_at from created;

-- name: ChangeUser :one
-- What the former address opened, a code or a session, opens nothing any more.
with ended as (
    delete from sign_ins where sign_ins.user_id = @user_id::uuid and sqlc.narg(email)::text is not null
), signed_out as (
    delete from account_sessions s where s.user_id = @user_id::uuid and sqlc.narg(email)::text is not null
), changed as (
    update users
    set email = coalesce(sqlc.narg(email)::text, email), timezone = coalesce(sqlc.narg(timezone)::text, timezone)
    where users.user_id = @user_id::uuid
    returning *
), noted as (
    insert into audit_events (actor, action, user_hash, detail)
    select 'operator', 'user.changed', audit_user(user_id),
        jsonb_build_object('email', sqlc.narg(email)::text is not null, 'timezone', sqlc.narg(timezone)::text is not null)
    from changed
)
select user_id, email, timezone, registered_on, created_at from changed;

-- name: GetUser :one
select * from users where user_id = @user_id;

-- name: ListUsers :many
select * from users where user_id > @after order by user_id limit sqlc.arg(row_limit)::int;

-- name: LockUser :one
-- Waits for whoever connects or imports for the user just now, and then keeps them out.
select email from users where user_id = @user_id for update;

-- name: DeleteSignInsOf :exec
-- Also those that began when the address had no account.
delete from sign_ins where lower(email) = lower(@email);

-- name: DeleteUser :exec
-- Everything that belongs to the user goes with the row: each table refers to it with "on delete cascade".
delete from users where user_id = @user_id;

-- name: NoteUserDeleted :exec
insert into audit_events (actor, action, user_hash, detail)
values ('operator', 'user.deleted', audit_user(@user_id), jsonb_build_object('connections', @connections::bigint));

-- name: FindForSignIn :one
-- Always one row, so that an address without an account takes the same way. The folded address is what decides that two
-- addresses are the same, for the account and for the limit alike.
select lower(typed.email)::text as folded, users.user_id, users.email
from (select @email::text as email) as typed
left join users on lower(users.email) = lower(typed.email);

-- name: CountCode :execrows
-- One more code within the sliding hour, if there is room: one row is written, or none. The row lock of the upsert
-- makes it exact under concurrency.
insert into sign_in_limits as l (key, asked_at, last_at)
values (@key, array[connect_now()], connect_now())
on conflict (key) do update
set asked_at = array(select t from unnest(l.asked_at) as t where t > connect_now() - interval '1 hour') || connect_now(),
    last_at  = connect_now()
where (select count(*) from unnest(l.asked_at) as t where t > connect_now() - interval '1 hour') < sqlc.arg(code_limit)::int;

-- name: PutSignIn :exec
-- A new code replaces the old one and its tries.
insert into sign_ins (sign_in_id, email, user_id, code_hash, expires_at)
values (@sign_in_id, @email, @user_id, @code_hash, connect_now() + interval '10 minutes')
on conflict (sign_in_id) do update
set email = excluded.email, user_id = excluded.user_id, code_hash = excluded.code_hash, tries = 0,
    expires_at = excluded.expires_at;

-- name: TakeTry :one
-- The try is spent before anybody learns whether the code was right: five tries stay five, however many at one time.
update sign_ins
set tries = tries + 1
where sign_in_id = @sign_in_id and tries < 5 and expires_at > connect_now()
returning user_id, code_hash, (5 - tries)::int as tries_left;

-- name: GetSignIn :one
select email, (5 - tries)::int as tries_left, (expires_at <= connect_now())::bool as expired
from sign_ins
where sign_in_id = @sign_in_id;

-- name: DeleteExpiredSignIns :execrows
-- Rows that a sign-in holds are left for the next time, here and below: no sweep and sign-in wait for each other. So are
-- those beyond what a statement can delete in its time.
delete from sign_ins where sign_in_id in (
    select sign_in_id from sign_ins where expires_at <= connect_now() limit 50000 for update skip locked
);

-- name: DeletePastLimits :execrows
delete from sign_in_limits where key in (
    select key from sign_in_limits where last_at <= connect_now() - interval '1 hour' limit 50000 for update skip locked
);

-- name: StartSession :execrows
-- Ends the sign-in that it came from, in the one statement that starts the session: a code starts one session. The hash
-- says which code was right, in case a new one has replaced it since.
with used as (
    delete from sign_ins
    where sign_in_id = @sign_in_id and sign_ins.user_id = @user_id::uuid and code_hash = @code_hash
        and sign_ins.expires_at > connect_now()
    returning sign_ins.user_id
)
insert into account_sessions (user_id, secret_hash, expires_at)
select used.user_id, @secret_hash, connect_now() + @lifetime::interval from used;

-- name: GetSession :one
select u.*
from account_sessions s
join users u using (user_id)
where s.user_id = @user_id and s.secret_hash = @secret_hash and s.expires_at > connect_now();

-- name: EndSession :exec
delete from account_sessions where user_id = @user_id and secret_hash = @secret_hash;

-- name: DeleteExpiredSessions :execrows
delete from account_sessions where (user_id, secret_hash) in (
    select user_id, secret_hash from account_sessions where expires_at <= connect_now() limit 50000 for update skip locked
);
