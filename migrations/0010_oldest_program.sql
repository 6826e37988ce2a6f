-- +goose Up

-- The oldest program that works on this schema, named by the newest migration that it was built with. During an upgrade
-- the schema is ahead of the servers that still run, so a migration adds only, or takes away what the programs of the
-- release before use no longer; one that breaks older programs says so by replacing this function.
create function connect_oldest_program() returns bigint language sql immutable as 'select 10::bigint';

-- +goose Down

drop function connect_oldest_program;
