-- +goose Up

-- The seeds of the sign-in's earlier codes, latest first: somebody who enters one of those codes is told so. Servers of before this migration
-- add none.
alter table sign_ins add column older_seeds bytea[] not null default '{}';

-- +goose Down

alter table sign_ins drop column older_seeds;
