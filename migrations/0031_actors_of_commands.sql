-- +goose Up

-- An actor can be a person at a command line, cli:NAME, or a partner's engineer, partner:NAME. The table is not read under this lock: 0032
-- validates what audit_log_actor_check has checked. Each change is a statement of its own, as Citus requires.
alter table audit_log add constraint audit_log_actor check (actor ~ '^((cli|partner):)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$') not valid;
alter table audit_log drop constraint audit_log_actor_check;

-- +goose Down

update audit_log set actor = regexp_replace(actor, '^[a-z]+:', '') where actor like '%:%';
alter table audit_log add constraint audit_log_actor_check check (actor ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$') not valid;
alter table audit_log validate constraint audit_log_actor_check;
alter table audit_log drop constraint audit_log_actor;
