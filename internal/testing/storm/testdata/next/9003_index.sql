-- +goose NO TRANSACTION
-- +goose Up

set lock_timeout = 0;
drop index concurrently if exists daily_steps_next;
create index concurrently daily_steps_next on daily_steps (date, steps);
reset lock_timeout;

-- +goose Down

set lock_timeout = 0;
drop index concurrently if exists daily_steps_next;
reset lock_timeout;
