-- Authorizations under way in a browser. Until somebody has signed in a request is sealed in the browser's cookie, and nothing of it
-- is here. The row holds who has signed in, and that the request was decided, until the request expires: it is decided once. Each
-- statement that reads or ends a request names the secret of its sign-in, and sees only requests that can still end well: within
-- their lifetime, not decided, of a client that is active and still registered as the request says.

-- name: ListRegistrations :many
-- What requests are compared with, and how users see their clients.
select client_id, status, callback_url, scopes, name, homepage_url, privacy_url, terms_url, logo, connect_now()::timestamptz as now
from clients where client_id = any (@client_ids::uuid[]);

-- name: SignInAuthorizationRequest :execrows
-- The first sign-in makes the row. From here on the secret of the sign-in continues the request, and the one that opened it only
-- signs in again.
insert into authorization_requests as r (request_id, browser_hash, client_id, redirect_uri, scopes, state, code_challenge, expires_at,
    user_id, session_hash)
select @request_id, @browser_hash, @client_id, @redirect_uri, @scopes, @state, @code_challenge, @expires_at::timestamptz,
    @user_id::uuid, @session_hash::bytea
where @expires_at::timestamptz > connect_now()
on conflict (request_id) do update set user_id = excluded.user_id, session_hash = excluded.session_hash
where r.browser_hash = excluded.browser_hash and not r.decided and (r.user_id is null or r.user_id = excluded.user_id);

-- name: GetAuthorizationRequest :one
select cl.client_id, cl.name, cl.homepage_url, cl.privacy_url, cl.terms_url, cl.logo, r.redirect_uri, r.scopes, r.expires_at
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id and r.session_hash = @session_hash::bytea and not r.decided and r.expires_at > connect_now()
    and cl.status = 'active' and cl.callback_url = r.redirect_uri and cl.scopes & r.scopes = r.scopes;

-- name: SignOutAuthorizationRequest :execrows
update authorization_requests
set user_id = null, session_hash = null, consent_day = null
where request_id = @request_id and session_hash = @session_hash::bytea and not decided and expires_at > connect_now();

-- What the consent is about.
-- name: GetConsentRequest :one
select r.user_id, r.client_id, r.redirect_uri, r.scopes, r.expires_at, r.consent_day
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id and r.session_hash = @session_hash and not r.decided and r.expires_at > connect_now()
    and cl.status = 'active' and cl.callback_url = r.redirect_uri and cl.scopes & r.scopes = r.scopes;

-- Who is asked, with the user's calendar day and the connection, if there is one.
-- name: GetConsentUser :one
select u.email, (connect_now() at time zone u.timezone)::date as today, (c.user_id is not null)::bool as known,
    coalesce(c.version, 0)::bigint as version, (c.state <> 'disconnected' and c.user_id is not null)::bool as connected,
    c.scopes, c.history_from
from users u
left join connections c on c.user_id = u.user_id and c.client_id = @client_id
where u.user_id = @user_id;

-- Specification 2.2 and decisions on connections: the day is the user's when the consent is first shown.
-- name: SetConsentDay :execrows
update authorization_requests r
set consent_day = @consent_day::date
where r.request_id = @request_id and r.session_hash = @session_hash and not r.decided and r.expires_at > connect_now()
    and (r.consent_day is null or r.consent_day = @consent_day::date);

-- Ends the request with the facts of a code. The code lives for its own lifetime, less if the request ends sooner
-- (3.1). What was found out about the user before is in the code, too, and is checked again when it is exchanged.
-- name: AllowAuthorizationRequest :one
with allowed as (
    update authorization_requests r
    set decided = true
    from clients cl
    where r.request_id = @request_id and r.session_hash = @session_hash and not r.decided and r.expires_at > connect_now()
        and cl.client_id = r.client_id
        and cl.status = 'active' and cl.callback_url = r.redirect_uri and cl.scopes & r.scopes = r.scopes
        and r.user_id = @user_id and r.consent_day = @consent_day
    returning r.user_id, r.client_id, r.redirect_uri, r.scopes, r.state, r.code_challenge, r.expires_at
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail)
    select user_id, 'user', 'consent.allowed', user_id, client_id, nullif(@version::bigint, 0),
        jsonb_build_object('scopes', scope_text(scopes))
    from allowed
)
select client_id, redirect_uri, scopes, state, code_challenge,
    least(expires_at, connect_now() + @code_lifetime::interval)::timestamptz as code_expires_at
from allowed;

-- Without a user the secret is that of the browser that opened the request, which may have signed in or not. A cancellation before
-- sign-in is not audited.
-- name: DenyAuthorizationRequest :one
with denied as (
    update authorization_requests r
    set decided = true
    from clients cl
    where r.request_id = @request_id and @browser_hash in (r.browser_hash, r.session_hash) and not r.decided
        and r.expires_at > connect_now() and cl.client_id = r.client_id and cl.status = 'active' and cl.callback_url = r.redirect_uri
    returning r.redirect_uri, r.state, r.client_id, r.user_id, r.scopes
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, detail)
    select user_id, 'user', 'consent.denied', user_id, client_id, jsonb_build_object('scopes', scope_text(scopes))
    from denied where user_id is not null
)
select redirect_uri, state from denied;

-- name: KnowsRequest :one
select exists (select 1 from authorization_requests where request_id = @request_id);

-- name: EndRequestsOfUsers :exec
-- When the users' addresses change, or the user is deleted.
update authorization_requests set decided = true, user_id = null, session_hash = null, consent_day = null
where user_id = any (@user_ids::uuid[]);

-- name: SweepAuthorizationRequests :execrows
-- What is sealed in the browser has expired by then, too. What is beyond what a statement can delete in its time is left for the
-- next one.
delete from authorization_requests where request_id in (
    select request_id from authorization_requests where expires_at <= connect_now() limit 50000
);
