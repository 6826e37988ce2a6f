-- +goose Up

-- An entry that is about no user and no client can be filed under any subject, because the node of a cluster that has the nil UUID's may be
-- away. audit_log_filed takes the place of audit_log_subject (0007). The table is not read under this lock: 0020 validates what
-- audit_log_subject has checked. Each change is a statement of its own, as Citus requires.
alter table audit_log add constraint audit_log_filed check (subject = coalesce(user_id, client_id, subject)) not valid;
alter table audit_log drop constraint audit_log_subject;

-- +goose Down

alter table audit_log add constraint audit_log_subject check (subject = coalesce(user_id, client_id, '00000000-0000-0000-0000-000000000000')) not valid;
alter table audit_log validate constraint audit_log_subject;
alter table audit_log drop constraint audit_log_filed;
