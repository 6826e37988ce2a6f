-- +goose NO TRANSACTION
-- +goose Up

-- New checks, beside those whose place they take in 0016. Locks one table after the other, each for a moment: no row is read.

-- One check in the place of six.
alter table connections drop constraint if exists connections_whole;
alter table connections add constraint connections_whole check (is_connection(version, state, refresh_generation, refresh_hash)) not valid;

-- An actor can be a person at a command line, cli:NAME, or a partner's engineer, partner:NAME.
alter table audit_log drop constraint if exists audit_log_actor;
alter table audit_log add constraint audit_log_actor check (actor ~ '^((cli|partner):)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$') not valid;

-- +goose Down

alter table audit_log drop constraint if exists audit_log_actor;
alter table connections drop constraint if exists connections_whole;
