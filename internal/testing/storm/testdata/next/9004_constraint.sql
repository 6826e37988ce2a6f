-- +goose Up

alter table daily_steps add constraint daily_steps_next_check check (steps <= 100000000) not valid;

-- +goose Down

alter table daily_steps drop constraint daily_steps_next_check;
