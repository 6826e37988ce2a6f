// Package pgstore keeps connections in PostgreSQL, for backends of any number of processes: a [connect.Store].
//
// It needs two tables, [Schema], in the partner's own database:
//
//	create table if not exists connect_connections (
//		key                text primary key,   -- the partner's own, such as the id of its user
//		grant_id           uuid   not null,    -- to find the connection that a webhook is about
//		connection_version bigint not null,    -- a webhook below it is stale
//		state              text   not null,    -- active, refreshing, uncertain or ended
//		sealed             bytea  not null,    -- the connection with its tokens, AES-256-GCM
//		updated_at         timestamptz not null default now()
//	);
//	create index if not exists connect_connections_grant_id on connect_connections (grant_id);
//	create table if not exists connect_pace (
//		client_id text primary key,       -- of the registration
//		last_at   timestamptz not null    -- the latest slot that was given to a read of any process
//	);
//
// The second one is for [Store.Pace], which is new in version 1.2.0. Without it each process reads at a pace of its own.
//
// It takes a [database/sql.DB] of any driver for PostgreSQL, so that the module depends on none. With pgx that is
// sql.Open("pgx", url) or stdlib.OpenDBFromPool(pool) of its package stdlib.
//
// The tokens lie encrypted (specification 5.5) under a key of 32 random bytes, which does not belong in the database. To
// change it, give the new one first and the old one after it: what is stored is sealed by the first, and each can open.
//
// A lock is an advisory lock of a session: it ends with the process that holds it, and takes one connection of the pool
// while a refresh is under way. Through PgBouncer it needs the pool mode "session".
package pgstore
