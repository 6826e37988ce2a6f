-- +goose Up

-- Every row was written under audit_log_actor_check, or under audit_log_actor (0031). The database does not know that yet.
alter table audit_log validate constraint audit_log_actor;

-- +goose Down

-- Nothing to do: 0031 brings the constraint of before.
select 1;
