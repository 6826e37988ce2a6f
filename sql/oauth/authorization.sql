-- Authorizations under way in a browser. Each statement that reads or ends a request names
-- the browser that opened it, and sees only requests that can still end well: within their lifetime, of a client that
-- is active and still registered as the request says.

-- name: GetRegistration :one
-- What a request is compared with before it is stored.
select callback_url, scopes from clients where client_id = @client_id and status = 'active';

-- name: CreateAuthorizationRequest :exec
insert into authorization_requests (request_id, browser_hash, client_id, redirect_uri, scopes, state, code_challenge,
    expires_at)
values (@request_id, @browser_hash, @client_id, @redirect_uri, @scopes, @state, @code_challenge,
    connect_now() + @lifetime::interval);

-- name: GetAuthorizationRequest :one
-- Found by the secret that it was opened with, and by the one of its sign-in.
select cl.client_id, cl.name, cl.homepage_url, cl.privacy_url, cl.terms_url, cl.logo, r.redirect_uri, r.scopes, r.expires_at,
    coalesce(r.session_hash = @browser_hash, false)::bool as signed_in
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id and @browser_hash in (r.browser_hash, r.session_hash) and r.expires_at > connect_now()
    and cl.status = 'active' and cl.callback_url = r.redirect_uri and cl.scopes & r.scopes = r.scopes;

-- name: SignInAuthorizationRequest :execrows
-- From here on the secret of the sign-in continues the request, and the one that opened it only signs in again.
update authorization_requests
set user_id = @user_id::uuid, session_hash = @session_hash::bytea
where request_id = @request_id and browser_hash = @browser_hash and expires_at > connect_now()
    and (user_id is null or user_id = @user_id::uuid);

-- name: SignOutAuthorizationRequest :execrows
update authorization_requests
set user_id = null, session_hash = null, consent_day = null
where request_id = @request_id and session_hash = @session_hash::bytea and expires_at > connect_now();

-- name: GetEnding :one
-- Why a request cannot go on, for the browsers that it belongs to.
select (r.expires_at <= connect_now())::bool as expired,
    (cl.status = 'active' and cl.callback_url = r.redirect_uri and cl.scopes & r.scopes = r.scopes)::bool as registered,
    (r.browser_hash = any (@browsers::bytea[]) or coalesce(r.session_hash = any (@browsers::bytea[]), false))::bool as own,
    cl.client_id, cl.name, cl.homepage_url, cl.privacy_url, cl.terms_url, cl.logo
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id;

-- name: GetPartner :one
select client_id, name, homepage_url, privacy_url, terms_url, logo from clients where client_id = @client_id;

-- What the consent is about.
-- name: GetConsentRequest :one
select r.user_id, r.client_id, r.redirect_uri, r.scopes, r.expires_at, r.consent_day
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id and r.session_hash = @session_hash and r.expires_at > connect_now()
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
where r.request_id = @request_id and r.session_hash = @session_hash and r.expires_at > connect_now()
    and (r.consent_day is null or r.consent_day = @consent_day::date);

-- Ends the request with the facts of a code. The code lives for its own lifetime, less if the request ends sooner
-- (3.1). What was found out about the user before is in the code, too, and is checked again when it is exchanged.
-- name: AllowAuthorizationRequest :one
with allowed as (
    delete from authorization_requests r
    using clients cl
    where r.request_id = @request_id and r.session_hash = @session_hash and r.expires_at > connect_now()
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

-- What nobody decided who had signed in is not worth an entry.
-- name: DenyAuthorizationRequest :one
with denied as (
    delete from authorization_requests r
    using clients cl
    where r.request_id = @request_id and @browser_hash in (r.browser_hash, r.session_hash) and r.expires_at > connect_now()
        and cl.client_id = r.client_id and cl.status = 'active' and cl.callback_url = r.redirect_uri
    returning r.redirect_uri, r.state, r.client_id, r.user_id, r.scopes
), noted as (
    insert into audit_log (subject, actor, action, user_id, client_id, detail)
    select user_id, 'user', 'consent.denied', user_id, client_id, jsonb_build_object('scopes', scope_text(scopes))
    from denied where user_id is not null
)
select redirect_uri, state from denied;

-- name: DeleteRequestsOfUsers :exec
-- When the users' addresses change, or the user is deleted.
delete from authorization_requests where user_id = any (@user_ids::uuid[]);

-- name: SweepAuthorizationRequests :execrows
-- An hour after the end, in which whoever comes late is told why. What is beyond what a statement can delete in its time is left for the next one.
delete from authorization_requests where request_id in (
    select request_id from authorization_requests where expires_at <= connect_now() - interval '1 hour' limit 50000
);
