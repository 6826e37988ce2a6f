-- +goose NO TRANSACTION
-- +goose Up

-- Servers read here which events are due, client by client.
set lock_timeout = 0;
drop index concurrently if exists webhook_events_due;
create index concurrently webhook_events_due on webhook_events (client_id, due_at, created_at) where state = 'pending';
reset lock_timeout;

-- +goose Down

set lock_timeout = 0;
drop index concurrently if exists webhook_events_due;
reset lock_timeout;
