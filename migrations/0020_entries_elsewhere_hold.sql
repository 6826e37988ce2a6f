-- +goose Up

-- Every row was written under audit_log_subject, or under audit_log_filed (0019). The database does not know that yet.
alter table audit_log validate constraint audit_log_filed;

-- +goose Down

-- Only a cluster has such entries. It does not update the column that shards them.
insert into audit_log (subject, id, at, actor, action, detail)
overriding system value
select '00000000-0000-0000-0000-000000000000', id, at, actor, action, detail
from audit_log where user_id is null and client_id is null and subject <> '00000000-0000-0000-0000-000000000000';
delete from audit_log where user_id is null and client_id is null and subject <> '00000000-0000-0000-0000-000000000000';
