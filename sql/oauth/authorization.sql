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
select cl.name, coalesce(cl.homepage_url, '') as homepage_url, r.redirect_uri, r.scopes, r.expires_at, r.user_id
from authorization_requests r
join clients cl using (client_id)
where r.request_id = @request_id and r.browser_hash = @browser_hash and r.expires_at > connect_now()
    and cl.status = 'active' and cl.callback_url = r.redirect_uri and cl.scopes & r.scopes = r.scopes;

-- name: SignInAuthorizationRequest :execrows
update authorization_requests
set user_id = @user_id
where request_id = @request_id and browser_hash = @browser_hash and expires_at > connect_now() and user_id is null;

-- Specification 2.2 and decisions on connections: the day is the user's when the consent is shown, and the consent
-- ends with that day (3.1). It is shown with the day from which on the connection will read.
-- name: ShowConsent :one
update authorization_requests r
set consent_day = coalesce(r.consent_day, (connect_now() at time zone u.timezone)::date)
from clients cl, users u
where r.request_id = @request_id and r.browser_hash = @browser_hash and r.expires_at > connect_now()
    and cl.client_id = r.client_id and u.user_id = r.user_id
    and cl.status = 'active' and cl.callback_url = r.redirect_uri and cl.scopes & r.scopes = r.scopes
    and coalesce(r.consent_day, (connect_now() at time zone u.timezone)::date)
        = (connect_now() at time zone u.timezone)::date
returning cl.name, coalesce(cl.homepage_url, '') as homepage_url, r.redirect_uri, r.scopes, u.email, r.expires_at,
    coalesce((select c.history_from from connections c
        where c.user_id = r.user_id and c.client_id = r.client_id and c.state <> 'disconnected'),
        r.consent_day)::date as history_from,
    exists (select from connections c
        where c.user_id = r.user_id and c.client_id = r.client_id and c.state <> 'disconnected'
            and c.scopes <> r.scopes) as scope_mismatch;

-- Ends the request with the facts of a code. The code lives for its own lifetime, less if the request ends sooner
-- (3.1); it is issued under the connection's present version, 0 where there never was a connection.
-- name: AllowAuthorizationRequest :one
with allowed as (
    delete from authorization_requests r
    using clients cl, users u
    where r.request_id = @request_id and r.browser_hash = @browser_hash and r.expires_at > connect_now()
        and cl.client_id = r.client_id and u.user_id = r.user_id
        and cl.status = 'active' and cl.callback_url = r.redirect_uri and cl.scopes & r.scopes = r.scopes
        and r.consent_day = (connect_now() at time zone u.timezone)::date
        and not exists (select from connections c
            where c.user_id = r.user_id and c.client_id = r.client_id and c.state <> 'disconnected'
                and c.scopes <> r.scopes)
    returning r.user_id, r.client_id, r.redirect_uri, r.scopes, r.state, r.code_challenge, r.consent_day,
        least(r.expires_at, connect_now() + @code_lifetime::interval)::timestamptz as code_expires_at,
        coalesce((select c.version from connections c
            where c.user_id = r.user_id and c.client_id = r.client_id), 0)::bigint as version
), noted as (
    insert into audit_events (actor, action, client_id, user_hash, connection_version, detail)
    select 'user', 'consent.allowed', client_id, audit_user(user_id), nullif(version, 0),
        jsonb_build_object('scopes', scope_text(scopes))
    from allowed
)
select user_id, client_id, redirect_uri, scopes, state, code_challenge, consent_day, code_expires_at, version
from allowed;

-- name: DenyAuthorizationRequest :one
with denied as (
    delete from authorization_requests r
    using clients cl
    where r.request_id = @request_id and r.browser_hash = @browser_hash and r.expires_at > connect_now()
        and cl.client_id = r.client_id and cl.status = 'active' and cl.callback_url = r.redirect_uri
    returning r.redirect_uri, r.state, r.client_id, r.user_id, r.scopes
), noted as (
    insert into audit_events (actor, action, client_id, user_hash, detail)
    select 'user', 'consent.denied', client_id, audit_user(user_id), jsonb_build_object('scopes', scope_text(scopes))
    from denied
)
select redirect_uri, state from denied;

-- name: SweepAuthorizationRequests :execrows
-- What is beyond what a statement can delete in its time is left for the next one.
delete from authorization_requests where request_id in (
    select request_id from authorization_requests where expires_at <= connect_now() limit 50000 for update skip locked
);
