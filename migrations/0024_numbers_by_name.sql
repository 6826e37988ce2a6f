-- +goose Up

-- 0017 let everybody take these numbers. The owner of the tables may do so anyway, and another role of the service gets this right by name, as
-- its rights on tables. Released programs take no numbers themselves, so the oldest program stays the one of 0010.
revoke usage on sequence audit_log_id_seq, webhook_changes_change_id_seq from public;
create or replace function connect_oldest_program() returns bigint language sql immutable as 'select 10::bigint';

-- +goose Down

grant usage on sequence audit_log_id_seq, webhook_changes_change_id_seq to public;
