-- +goose Up

-- The first sign-in in the browser. Null if signed_in_at is the first one, or a server of before this migration has stored the row.
alter table known_browsers add column first_signed_in_at timestamptz;

-- +goose Down

alter table known_browsers drop column first_signed_in_at;
