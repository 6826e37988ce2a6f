-- Emails without a code, which wait for the mail server.

-- name: AddNotice :exec
insert into notices (recipient, kind, data) values (@recipient, @kind, @data::jsonb);

-- name: ListDueNotices :many
-- Those that became due first, or last. Locks nothing and writes nothing.
(select recipient, notice_id from notices
where not @newest::bool and due_at <= now() and (leased_until is null or leased_until <= now()) and kind = any (@kinds::text[])
order by due_at
limit @most::int)
union all
(select recipient, notice_id from notices
where @newest::bool and due_at <= now() and (leased_until is null or leased_until <= now()) and kind = any (@kinds::text[])
order by due_at desc
limit @most::int);

-- name: ClaimNotice :one
-- Leases a notice unless another server has, and counts the attempt first, so that attempts are bounded even if the server dies.
update notices set leased_until = now() + @lease::interval, attempts = attempts + 1
where notices.recipient = @recipient and notices.notice_id = @notice_id and recipient in (
    select w.recipient from notices w
    where w.recipient = @recipient and w.notice_id = @notice_id and w.due_at <= now()
        and (w.leased_until is null or w.leased_until <= now())
    for update skip locked)
returning recipient, notice_id, kind, data, put_at, attempts;

-- name: DelayNotice :exec
-- Ends the lease, unless the notice was leased again in the meantime.
update notices set due_at = now() + @delay::interval, leased_until = null
where recipient = @recipient and notice_id = @notice_id and attempts = @attempts;

-- name: DeleteNotice :exec
delete from notices where recipient = @recipient and notice_id = @notice_id;

-- name: DeleteNoticesOf :exec
delete from notices where recipient = @recipient;

-- name: DeletePastNotices :execrows
-- Those of kinds that are switched off, and those that no server has known for long. The limit keeps the statement within its timeout.
delete from notices where (recipient, notice_id) in (
    select recipient, notice_id from notices where kind = any (@off::text[]) or put_at <= @before::timestamptz limit 50000
);

-- name: DeleteEarlierNotices :exec
-- Those of the same kind about the same client, which say the same.
delete from notices
where recipient = @recipient and kind = @kind and data ->> 'client_id' = @client_id::text and put_at < @put_at;

-- name: IsLatestNotice :one
-- Whether a notice waits, and no later one of the same kind about the same client does.
select coalesce(max(put_at) = @put_at::timestamptz, false)::bool as latest from notices
where recipient = @recipient and kind = @kind and data ->> 'client_id' = @client_id::text;

-- name: CountNotices :one
-- The notices that wait or are being sent, and the age of the oldest in seconds.
select count(*) as waiting, coalesce(extract(epoch from connect_now() - min(put_at)), 0)::float8 as oldest from notices;
