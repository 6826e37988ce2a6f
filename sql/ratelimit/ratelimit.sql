-- The state of each client's rate limit, for all servers: one small text, compared and set.

-- name: LoadState :one
select state from rate_limits where client_id = @client_id;

-- name: SetFirstState :execrows
insert into rate_limits (client_id, state) values (@client_id, @state) on conflict do nothing;

-- name: CompareAndSetState :execrows
update rate_limits set state = @next where client_id = @client_id and state = @old;
