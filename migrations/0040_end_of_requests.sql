-- +goose Up

-- When the authorization request ends that the code is for. Null: none, or the code is of a server of before this migration.
alter table code_emails add column request_ends_at timestamptz;

-- +goose Down

alter table code_emails drop column request_ends_at;
