-- +goose Up

-- The sign-in has started a session of the account pages. Until it expires, the same form again leads to the same session. Programs of before
-- this migration delete such a row.
alter table sign_ins add column used boolean not null default false;

-- +goose Down

alter table sign_ins drop column used;
