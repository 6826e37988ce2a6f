-- +goose Up

-- Of the pages of the user's last sign-in. Null: there was none since this migration.
alter table users add column language text;

-- +goose Down

alter table users drop column language;
