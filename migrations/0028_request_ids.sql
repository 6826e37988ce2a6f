-- +goose Up

-- The X-Request-ID of the last of these requests, at most twenty.
alter table client_errors add column request_ids uuid[] not null default '{}';

-- +goose Down

alter table client_errors drop column request_ids;
