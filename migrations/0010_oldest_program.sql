-- +goose Up

-- The oldest program that works on this schema, identified by the newest migration that it was built with. During an upgrade the schema is
-- newer than the running servers. So a migration only adds, or removes what the programs of the previous release do not use. A migration
-- that breaks older programs replaces this function.
create function connect_oldest_program() returns bigint language sql immutable as 'select 10::bigint';

-- +goose Down

drop function connect_oldest_program;
