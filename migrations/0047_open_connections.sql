-- +goose NO TRANSACTION
-- +goose Up

-- The index of connections that have not ended has the whole key: PostgreSQL 18 chooses it for one connection while the table is small, and a
-- prepared statement keeps that choice. With the client alone it would then read all connections of the client.
set lock_timeout = 0;
drop index concurrently if exists connections_open;
create index concurrently connections_open on connections (client_id, user_id) where state <> 'disconnected';
drop index concurrently if exists connections_live;
reset lock_timeout;

-- +goose Down

set lock_timeout = 0;
drop index concurrently if exists connections_live;
create index concurrently connections_live on connections (client_id) where state <> 'disconnected';
drop index concurrently if exists connections_open;
reset lock_timeout;
