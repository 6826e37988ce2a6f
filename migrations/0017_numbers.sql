-- +goose Up

-- The statements take the numbers of these rows themselves, because a cluster sends an insert to one node only if it generates none
-- (sql/oauth/connection.sql). A role that does not own the tables may lack this privilege, which an insert alone did not need.
grant usage on sequence audit_log_id_seq, webhook_changes_change_id_seq to public;

-- +goose Down

revoke usage on sequence audit_log_id_seq, webhook_changes_change_id_seq from public;
