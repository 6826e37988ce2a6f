-- +goose NO TRANSACTION
-- +goose Up

-- Servers read here which events are ready, client by client, and for which retries the time has come.
set lock_timeout = 0;
drop index concurrently if exists webhook_events_ready;
create index concurrently webhook_events_ready on webhook_events (client_id, ready, created_at)
    where state = 'pending' and ready is not null;
drop index concurrently if exists webhook_events_retries;
create index concurrently webhook_events_retries on webhook_events (due_at) where state = 'pending' and ready is null;
reset lock_timeout;

-- +goose Down

set lock_timeout = 0;
drop index concurrently if exists webhook_events_ready;
drop index concurrently if exists webhook_events_retries;
reset lock_timeout;
