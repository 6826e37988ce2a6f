-- +goose Up

-- The scope of the read whose time is last_read_at. Null, or that of an earlier read, if a server of before this migration recorded the
-- time. Its type is not scope_set, because PostgreSQL would rewrite the table.
alter table connections add column last_read_scope smallint;

-- +goose Down

alter table connections drop column last_read_scope;
