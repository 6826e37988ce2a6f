-- +goose NO TRANSACTION
-- +goose Up

-- Indexes, the smallest first. Locks nothing that requests need: everybody reads and writes meanwhile. Each index takes as long as PostgreSQL
-- needs to read its table twice, and waits for the transactions that have begun before. If this is broken off, it begins anew. At the end it
-- drops indexes of programs of 1.0.0. While they run beside, they search the audit log by actor or action slowly, and a change of a user's
-- address reads all sign-ins.

-- Until all of it has been done, it can be rolled back, and is pending.
insert into goose_db_version (id, version_id, is_applied)
select max(id) + 1, 18, false from goose_db_version having count(*) filter (where version_id = 18) = 0;

set lock_timeout = 0;

-- To find look-alikes of a name. Names without keys have the key 0.
drop index concurrently if exists clients_looks;
create index concurrently clients_looks on clients using gin ((case when looks_of = name then looks else '{0}' end)) with (fastupdate = off);

-- Servers read here which events are ready, client by client, and for which retries the time has come.
drop index concurrently if exists webhook_events_ready;
create index concurrently webhook_events_ready on webhook_events (client_id, ready, created_at) where state = 'pending' and ready is not null;
drop index concurrently if exists webhook_events_retries;
create index concurrently webhook_events_retries on webhook_events (due_at) where state = 'pending' and ready is null;

-- To find the events of a deleted user's connection by its grant, which nothing else has any more.
drop index concurrently if exists webhook_events_ends;
create index concurrently webhook_events_ends on webhook_events (grant_id) where type in ('connection.revoked', 'connection.ended');

-- To find a refused request by its X-Request-ID, and those of a grant.
drop index concurrently if exists client_errors_request;
create index concurrently client_errors_request on client_errors using gin (request_ids);
drop index concurrently if exists client_errors_grants;
create index concurrently client_errors_grants on client_errors using gin (grant_ids);

-- To keep the latest refused requests of each kind.
drop index concurrently if exists client_errors_kind;
create index concurrently client_errors_kind on client_errors (client_id, authenticated, operation collate "C", status, code collate "C", at, error_id);

-- Sign-ins by address; and the few addresses that a program of 1.0.0 may have stored otherwise: with another key, as they are not ASCII, or
-- though their domain is not the name of a host. No statement folds texts any more.
drop index concurrently if exists sign_ins_address;
create index concurrently sign_ins_address on sign_ins (address);
drop index concurrently if exists user_addresses_unusual;
create index concurrently user_addresses_unusual on user_addresses (address)
    where address || email ~ '[^\x01-\x7f]' or address !~ '^[^@]+@([a-z0-9]+(-[a-z0-9]+)*\.)*[a-z]+$';

-- The index of connections that have not ended has the whole key: PostgreSQL 18 chooses it for one connection while the table is small, and a
-- prepared statement keeps that choice. With the client alone it would then read all connections of the client.
drop index concurrently if exists connections_open;
create index concurrently connections_open on connections (client_id, user_id) where state <> 'disconnected';

-- For the rare actors and actions alone. Most entries are of a few that occur everywhere, so a search by time finds those soon.
drop index concurrently if exists audit_log_rare_actor;
create index concurrently audit_log_rare_actor on audit_log (actor, at, id) where actor not in ('user', 'client');
drop index concurrently if exists audit_log_rare_action;
create index concurrently audit_log_rare_action on audit_log (action, at, id)
    where action not in ('user.created', 'consent.allowed', 'connection.authorized', 'connection.disconnected', 'connection.revoked');

-- For the ends of a client's connections.
drop index concurrently if exists audit_log_ends;
create index concurrently audit_log_ends on audit_log (client_id, at, id)
    where action in ('connection.revoked', 'connection.disconnected', 'connection.lapsed');

-- The log has hashes of grant ids, by which operators find the connections.
drop index concurrently if exists grant_directory_hash;
create index concurrently grant_directory_hash on grant_directory (substring(sha256(uuid_send(grant_id)) for 8));

drop index concurrently if exists sign_ins_email;
drop index concurrently if exists connections_live;
drop index concurrently if exists audit_log_actor;
drop index concurrently if exists audit_log_action;
reset lock_timeout;

-- +goose Down

update goose_db_version set is_applied = false where version_id = 18;
set lock_timeout = 0;
drop index concurrently if exists sign_ins_email;
create index concurrently sign_ins_email on sign_ins (lower(email) collate "C");
drop index concurrently if exists connections_live;
create index concurrently connections_live on connections (client_id) where state <> 'disconnected';
drop index concurrently if exists audit_log_actor;
create index concurrently audit_log_actor on audit_log (actor, at, id);
drop index concurrently if exists audit_log_action;
create index concurrently audit_log_action on audit_log (action, at, id);
drop index concurrently if exists clients_looks;
drop index concurrently if exists webhook_events_ready;
drop index concurrently if exists webhook_events_retries;
drop index concurrently if exists webhook_events_ends;
drop index concurrently if exists grant_directory_hash;
drop index concurrently if exists client_errors_request;
drop index concurrently if exists client_errors_grants;
drop index concurrently if exists client_errors_kind;
drop index concurrently if exists sign_ins_address;
drop index concurrently if exists user_addresses_unusual;
drop index concurrently if exists connections_open;
drop index concurrently if exists audit_log_rare_actor;
drop index concurrently if exists audit_log_rare_action;
drop index concurrently if exists audit_log_ends;
reset lock_timeout;
