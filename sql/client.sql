-- Registrations of partner companies: used by internal/client.

-- name: CreateClient :exec
insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads,
    contact_email, homepage_url, created_at)
values (@client_id, @name, @callback_url, @scopes, @secret_hash, @requests_per_minute, @burst, @concurrent_reads,
    @contact_email, @homepage_url, connect_now());

-- name: GetClient :one
select * from clients where client_id = @client_id;

-- name: ListClients :many
select * from clients order by created_at, client_id;

-- name: SetClientStatus :execrows
update clients set status = @status where client_id = @client_id and status <> 'offboarded';

-- name: ReplaceClientSecret :execrows
update clients set secret_hash = @secret_hash where client_id = @client_id and status <> 'offboarded';
