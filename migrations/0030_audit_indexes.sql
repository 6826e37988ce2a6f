-- +goose NO TRANSACTION
-- +goose Up

-- Indexes for the rare actors and actions alone. Most entries are of a few that occur everywhere, so a search by time finds those soon.
-- While servers of before this migration run, their searches by actor or action are slow.
set lock_timeout = 0;
drop index concurrently if exists audit_log_rare_actor;
create index concurrently audit_log_rare_actor on audit_log (actor, at, id) where actor not in ('user', 'client');
drop index concurrently if exists audit_log_rare_action;
create index concurrently audit_log_rare_action on audit_log (action, at, id)
    where action not in ('user.created', 'consent.allowed', 'connection.authorized', 'connection.disconnected', 'connection.revoked');
drop index concurrently if exists audit_log_actor;
drop index concurrently if exists audit_log_action;
reset lock_timeout;

-- +goose Down

set lock_timeout = 0;
drop index concurrently if exists audit_log_actor;
create index concurrently audit_log_actor on audit_log (actor, at, id);
drop index concurrently if exists audit_log_action;
create index concurrently audit_log_action on audit_log (action, at, id);
drop index concurrently if exists audit_log_rare_actor;
drop index concurrently if exists audit_log_rare_action;
reset lock_timeout;
