-- Registrations of partner companies.

-- name: CreateClient :exec
with created as (
    insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst,
        concurrent_reads, contact_email, homepage_url, privacy_url, terms_url, logo, webhook_parallel, looks, looks_of, created_at)
    values (@client_id, @name, @callback_url, @scopes, @secret_hash, @requests_per_minute, @burst,
        @concurrent_reads, @contact_email, @homepage_url, @privacy_url, @terms_url, @logo, @webhook_parallel, @looks, @name, connect_now())
    returning client_id, name, callback_url, scopes
)
insert into audit_log (subject, actor, action, client_id, detail)
select created.client_id, @actor::text, 'client.created', created.client_id,
    jsonb_build_object('name', created.name, 'callback_url', created.callback_url, 'scopes', scope_text(created.scopes))
from created;

-- name: GetClient :one
select sqlc.embed(clients), coalesce(previous_secret_until > connect_now(), false)::bool as overlapping
from clients
where client_id = @client_id;

-- name: ListClientNames :many
select client_id, name from clients where client_id = any (@client_ids::uuid[]);

-- name: ListClients :many
-- Oldest first.
select sqlc.embed(clients), coalesce(previous_secret_until > connect_now(), false)::bool as overlapping
from clients
where (created_at, client_id) > (@after_time::timestamptz, @after_id::uuid)
order by created_at, client_id
limit @max_rows;

-- name: ListClientsOf :many
select sqlc.embed(clients), coalesce(previous_secret_until > connect_now(), false)::bool as overlapping
from clients
where client_id = any (@client_ids::uuid[])
order by created_at, client_id;

-- name: ListNamesWithLooks :many
-- The clients whose names have one of these keys, by the index clients_looks. until 1.3.0: names without keys, of programs of 1.0.0, have the
-- key 0.
select client_id, name from clients
where (case when looks_of = name then looks else '{0}' end) && @looks::bigint[]
limit @max_rows;

-- name: PutLooks :exec
-- Unless the client has got another name.
update clients set looks = @looks::bigint[], looks_of = name where client_id = @client_id and name = @name;

-- name: ListSearched :many
-- The program compares these with a search. There are some thousand clients at most, so that no index is needed. The subquery names no
-- column of clients: Citus refuses one that does.
select cl.client_id, cl.name, cl.contact_email, cl.status, cl.callback_url, coalesce(e.url, '')::text as webhook_url,
    (cl.client_id = any (array(select r.client_id from change_requests r where r.state = 'open')))::bool as change_requested
from clients cl
left join webhook_endpoints e on e.client_id = cl.client_id
where (cl.created_at, cl.client_id) > (@after_time::timestamptz, @after_id::uuid)
order by cl.created_at, cl.client_id;

-- name: SetClientStatus :one
-- Setting the current status again changes nothing and is not audited.
with found as (
    select cl.client_id, cl.status from clients cl where cl.client_id = @client_id and cl.status <> 'offboarded' for update
), changed as (
    update clients set status = @status
    from found
    where clients.client_id = found.client_id and found.status <> @status
    returning clients.client_id
), audited as (
    insert into audit_log (subject, actor, action, client_id)
    select client_id, @actor::text, case @status when 'active' then 'client.enabled' else 'client.disabled' end, client_id
    from changed
)
select count(*) from found;

-- name: ReplaceClientSecret :one
-- The previous secret works for the overlap, older ones never do. With seen_until nothing is replaced if another previous secret works
-- by now.
with replaced as (
    update clients cl
    set secret_hash = @secret_hash,
        previous_secret_hash = case when @overlap::interval > interval '0' then cl.secret_hash end,
        previous_secret_until = case when @overlap::interval > interval '0'
            then believed_time(@expected::pg_catalog.timestamptz) + @overlap::interval end
    where cl.client_id = @client_id and cl.status <> 'offboarded'
        and (sqlc.narg(seen_until)::timestamptz is null or cl.previous_secret_until is null
            or cl.previous_secret_until <= believed_time(@expected::pg_catalog.timestamptz) or cl.previous_secret_until = sqlc.narg(seen_until))
    returning cl.client_id, cl.previous_secret_until
), audited as (
    insert into audit_log (subject, actor, action, client_id, detail)
    select replaced.client_id, @actor::text, 'client.secret_replaced', replaced.client_id,
        case when @overlap::interval > interval '0'
            then jsonb_build_object('overlap_seconds', extract(epoch from @overlap::interval)::bigint) else '{}' end
    from replaced
)
select replaced.previous_secret_until from replaced;

-- name: LockForAct :one
-- Whether the client has a contact. Keeps other costly acts on the client waiting, and nobody who reads it or refers to it.
select contact_email <> '' as has_contact from clients where client_id = @client_id for no key update;

-- name: FindEarlierAct :one
-- The latest act but the skipped ones, if it was within the last hour, and until when it is. Entries of the partner's people and of others count
-- apart. Those of a time that has not come are of a clock that was wrong.
select (at + interval '1 hour')::timestamptz as until, extract(epoch from at + interval '1 hour' - connect_now())::float8 as seconds
from audit_log
where subject = @client_id and action = @action and starts_with(actor, 'partner:') = starts_with(@actor::text, 'partner:')
    and at > connect_now() - interval '1 hour' and at <= connect_now()
order by at desc, id desc
limit 1 offset @skipped::int;

-- name: MergeNotice :execrows
-- Makes the email about such acts that waits, if one does, also that about this act. Its attempts begin anew, within an hour, which is
-- the longest delay before the first.
update notices
set attempts = 0, due_at = least(due_at, now() + interval '1 hour'),
    data = data || jsonb_build_object('times', coalesce((data ->> 'times')::int, 1) + 1,
    'by', case when @actor::text = any (string_to_array(data ->> 'by', ', ')) then data ->> 'by' else (data ->> 'by') || ', ' || @actor::text end)
where recipient = @client_id and kind = 'partner_change' and data ->> 'what' = @what::text and (leased_until is null or leased_until <= now());

-- name: TellContact :exec
-- An email to the partner's contact.
insert into notices (recipient, kind, data, due_at)
values (@client_id, 'partner_change', jsonb_build_object('by', @actor::text, 'what', @what::text), now() + @delay::interval);

-- name: LockClient :one
select sqlc.embed(clients), coalesce(previous_secret_until > connect_now(), false)::bool as overlapping
from clients
where client_id = @client_id
for update;

-- name: UpdateClient :exec
update clients
set name = @name, callback_url = @callback_url, scopes = @scopes, requests_per_minute = @requests_per_minute,
    burst = @burst, concurrent_reads = @concurrent_reads, contact_email = @contact_email, homepage_url = @homepage_url,
    privacy_url = @privacy_url, terms_url = @terms_url, logo = @logo, webhook_parallel = @webhook_parallel, looks = @looks, looks_of = @name
where client_id = @client_id;

-- name: PutLogo :exec
insert into client_logos (client_id, logo, content) values (@client_id, @logo, @content)
on conflict (client_id) do update set logo = excluded.logo, content = excluded.content;

-- name: DeleteLogo :exec
delete from client_logos where client_id = @client_id;

-- name: ListLogos :many
-- The logos with these names, of these clients.
select l.client_id, l.logo, l.content
from (select unnest(@client_ids::uuid[]) as client_id, unnest(@logos::text[]) as logo) as wanted
join client_logos l on l.client_id = wanted.client_id and l.logo = wanted.logo;

-- name: OffboardClient :execrows
update clients set status = 'offboarded' where client_id = @client_id and status <> 'offboarded';

-- name: EndPortalSessions :exec
-- The links to a client's pages and the sessions there, in the transaction that disables or offboards it.
delete from portal_sessions where client_id = @client_id;

-- name: InsertClientAudit :exec
-- For a change that takes several statements, in its transaction.
insert into audit_log (subject, actor, action, client_id, detail)
values (@client_id::uuid, @actor::text, @action, @client_id::uuid, @detail);

-- name: PutChangeRequest :exec
-- Replaces the client's last request, in a transaction that has locked the client.
insert into change_requests as c (client_id, request_id, state, wanted, logo, logo_content, requested_by, requested_at)
values (@client_id, @request_id, 'open', @wanted, sqlc.narg(logo), sqlc.narg(logo_content), @requested_by, connect_now())
on conflict (client_id) do update
set request_id = excluded.request_id, state = excluded.state, wanted = excluded.wanted, logo = excluded.logo,
    logo_content = excluded.logo_content, requested_by = excluded.requested_by, requested_at = excluded.requested_at,
    answered_by = null, answered_at = null, answer = '';

-- name: GetChangeRequest :one
select * from change_requests where client_id = @client_id;

-- name: AnswerChangeRequest :one
-- In a transaction that has locked the client.
update change_requests
set state = @state, answered_by = @answered_by::text, answered_at = connect_now(), answer = @answer, logo = null, logo_content = null
where client_id = @client_id and request_id = @request_id and state = 'open'
returning *;

-- name: TellAnswer :exec
-- In the transaction of the answer: the partner's contact gets an email.
insert into notices (recipient, kind, data)
values (@client_id::uuid, 'partner_answer', jsonb_build_object('by', @requested_by::text, 'state', @state::text, 'answer', @answer::text));

-- name: DeleteChangeRequest :execrows
delete from change_requests where client_id = @client_id and request_id = @request_id and state = 'open';

-- name: EndChangeRequest :exec
-- In the transaction that offboards the client.
delete from change_requests where client_id = @client_id;

-- name: ListChangeRequests :many
-- Those that are open, oldest first.
select c.client_id, c.request_id, c.requested_by, c.requested_at, cl.name
from change_requests c
join clients cl on cl.client_id = c.client_id
where c.state = 'open' and (c.requested_at, c.client_id) > (@after_time::timestamptz, @after_id::uuid)
order by c.requested_at, c.client_id
limit @max_rows;

-- name: CountChangeRequests :one
select count(*) from change_requests where state = 'open';
