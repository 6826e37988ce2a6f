-- +goose Up

-- The key of the address that was typed, as in user_addresses. Null in rows of programs of before this migration.
alter table sign_ins add column address text collate "C";

-- +goose Down

alter table sign_ins drop column address;
