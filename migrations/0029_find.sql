-- +goose NO TRANSACTION
-- +goose Up

-- To find a refused request by its X-Request-ID, and a client by its name.
set lock_timeout = 0;
drop index concurrently if exists client_errors_request;
create index concurrently client_errors_request on client_errors using gin (request_ids);
drop index concurrently if exists clients_name;
create index concurrently clients_name on clients (lower(name) collate "C");
reset lock_timeout;

-- +goose Down

set lock_timeout = 0;
drop index concurrently if exists clients_name;
drop index concurrently if exists client_errors_request;
reset lock_timeout;
