-- Authorization requests in a browser. Before sign-in a request is sealed in the browser's cookie and not stored. The row records who
-- has signed in and what was decided, until the request expires, so that it is decided once. Every statement that reads or
-- ends a request names the secret of its sign-in and requires that the request can still succeed: it has not expired, was not decided,
-- and its client is active and registered for it.

-- name: ListRegistrations :many
-- The registrations that requests are checked against, with what users see of the clients.
select client_id, is_active(status)::bool as active, callback_url, scopes, name, homepage_url, privacy_url, terms_url, logo, issue_time(@expected::pg_catalog.timestamptz)::timestamptz as now
from clients where client_id = any (@client_ids::uuid[]);

-- name: SignInAuthorizationRequest :one
-- The first sign-in inserts the row. From then on the secret of the sign-in continues the request, and the secret of the browser that
-- opened it can only sign in again. The user's calendar day of the sign-in becomes history_from (specification 2.2). A second sign-in of
-- the same user keeps it. The statement returns a row if the user is signed in: a cluster does not count the rows of such an insert.
insert into authorization_requests as r (request_id, browser_hash, client_id, redirect_uri, scopes, state, code_challenge, expires_at,
    user_id, session_hash, consent_day)
select @request_id, @browser_hash, @client_id, @redirect_uri, @scopes, @state, @code_challenge, @expires_at::timestamptz,
    @user_id::uuid, @session_hash::bytea, @consent_day::date
where @expires_at::timestamptz > connect_now()
on conflict (request_id) do update set user_id = excluded.user_id, session_hash = excluded.session_hash,
    consent_day = coalesce(r.consent_day, excluded.consent_day)
where r.browser_hash = excluded.browser_hash and not r.decided and (r.user_id is null or r.user_id = excluded.user_id)
returning r.request_id;

-- name: GetAuthorizationRequest :one
select cl.client_id, cl.name, cl.homepage_url, cl.privacy_url, cl.terms_url, cl.logo, r.redirect_uri, r.scopes, r.expires_at,
    r.user_id, r.consent_day
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id and r.session_hash = @session_hash::bytea and not r.decided and r.expires_at > connect_now()
    and is_registered_for(r.redirect_uri, r.scopes, cl.status, cl.callback_url, cl.scopes);

-- name: SignOutAuthorizationRequest :execrows
update authorization_requests
set user_id = null, session_hash = null, consent_day = null
where request_id = @request_id and session_hash = @session_hash::bytea and not decided and expires_at > connect_now();

-- name: GetConsentUser :one
-- The user who is asked, with the connection. now and timezone tell the user's calendar day: no statement does, because PostgreSQL refuses
-- the names that it does not have. known: the connection has a row. connected: it was not disconnected.
select u.email, u.registered_on, u.timezone, issue_time(@expected::pg_catalog.timestamptz)::timestamptz as now, (c.user_id is not null)::bool as known,
    coalesce(c.version, 0)::bigint as version, (c.state <> 'disconnected' and c.user_id is not null)::bool as connected,
    coalesce(connection_state(c.state, c.refresh_deadline), '')::text as state, c.scopes, c.history_from
from users u
left join connections c on c.user_id = u.user_id and c.client_id = @client_id
where u.user_id = @user_id;

-- name: SetConsentDay :exec
-- until 1.3.0: a server of 1.0.0 stores no day of the sign-in, but that of the page, and allows nothing without it.
update authorization_requests set consent_day = @consent_day::date
where request_id = @request_id and session_hash = @session_hash::bytea and consent_day is null and not decided;

-- name: AllowAuthorizationRequest :one
-- Ends the request and returns the content of its code. The code expires after its own lifetime, or with the request if that is sooner
-- (3.1). The code also holds what was read about the user before, and the exchange checks it again. day_ends is when the day of the consent
-- is over for the user. until 1.3.0: servers of 1.0.0 store no day of the sign-in.
with allowed as (
    update authorization_requests r
    set decided = true, decision = 'allow', decided_version = @version::bigint, consent_day = @consent_day::date,
        code_expires_at = least(r.expires_at, code.expires_at)
    from clients cl, (select issue_time(@expected::pg_catalog.timestamptz) + @code_lifetime::interval as expires_at) code
    where r.request_id = @request_id and r.session_hash = @session_hash and not r.decided and r.expires_at > connect_now()
        and cl.client_id = r.client_id
        and is_registered_for(r.redirect_uri, r.scopes, cl.status, cl.callback_url, cl.scopes)
        and r.user_id = @user_id and (r.consent_day is null or r.consent_day = @consent_day::date)
        and issue_time(@expected::pg_catalog.timestamptz) < @day_ends::timestamptz
    returning r.user_id, r.client_id, r.redirect_uri, r.scopes, r.state, r.code_challenge, r.consent_day, r.decided_version, r.code_expires_at
), fresh as materialized (
    select nextval('audit_log_id_seq') as entry_id
), audited as (
    insert into audit_log (subject, id, actor, action, user_id, client_id, connection_version, detail)
    overriding system value
    select u.user_id, fresh.entry_id, 'user', 'consent.allowed', allowed.user_id, allowed.client_id, nullif(@version::bigint, 0),
        jsonb_build_object('scopes', allowed.scopes)
    from allowed cross join fresh join users u on u.user_id = @user_id
)
select user_id, client_id, redirect_uri, scopes, state, code_challenge, consent_day, decided_version, code_expires_at from allowed;

-- name: GetAllowedRequest :one
-- The content of the code of a request that was allowed in this session, while the code is valid.
select r.user_id, r.client_id, r.redirect_uri, r.scopes, r.state, r.code_challenge, r.consent_day, r.decided_version, r.code_expires_at
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id and r.session_hash = @session_hash::bytea and r.decision = 'allow'
    and r.code_expires_at > connect_now() and r.expires_at > connect_now()
    and is_registered_for(r.redirect_uri, r.scopes, cl.status, cl.callback_url, cl.scopes);

-- name: DenyAuthorizationRequest :one
-- The secret is that of the sign-in, or of the browser that opened the request. decision: deny, or disconnect and on which version.
update authorization_requests r
set decided = true, decision = @decision::text, decided_version = sqlc.narg(version)::bigint
from clients cl
where r.request_id = @request_id and @browser_hash in (r.browser_hash, r.session_hash) and not r.decided
    and r.expires_at > connect_now() and cl.client_id = r.client_id and is_active(cl.status) and cl.callback_url = r.redirect_uri
returning r.redirect_uri, r.state, r.client_id, r.user_id, r.scopes, r.decided_version;

-- name: GetDeniedRequest :one
-- A request that was denied by the same decision.
select r.redirect_uri, r.state, r.client_id, r.user_id, r.scopes, r.decided_version
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id and @browser_hash in (r.browser_hash, r.session_hash) and r.decision = @decision::text
    and r.expires_at > connect_now() and is_active(cl.status) and cl.callback_url = r.redirect_uri;

-- name: AuditDenied :exec
insert into audit_log (subject, actor, action, user_id, client_id, detail)
values (@user_id::uuid, 'user', 'consent.denied', @user_id::uuid, @client_id::uuid, jsonb_build_object('scopes', @scopes::scope_set));

-- name: FindRequest :one
-- The decision on a request of this browser.
select decision, (session_hash is null and not decided and expires_at > connect_now())::bool as signed_out
from authorization_requests where request_id = @request_id and browser_hash = @browser_hash;

-- name: EndRequestsOfUsers :exec
-- For a change of the users' addresses, or a deletion.
update authorization_requests set decided = true, user_id = null, session_hash = null, consent_day = null
where user_id = any (@user_ids::uuid[]);

-- name: SweepAuthorizationRequests :execrows
-- A request that is sealed in a browser has expired by then, too. The limit keeps the statement within its timeout.
delete from authorization_requests where request_id in (
    select request_id from authorization_requests where expires_at <= @before::timestamptz limit 50000
);
