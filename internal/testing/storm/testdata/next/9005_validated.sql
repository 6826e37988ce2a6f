-- +goose Up

alter table daily_steps validate constraint daily_steps_next_check;

-- +goose Down
