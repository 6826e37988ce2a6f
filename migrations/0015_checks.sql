-- +goose NO TRANSACTION
-- +goose Up

-- New checks, beside those whose place they take in 0016. Locks one table after the other, each for a moment: no row is read.

-- Until all of it has been done, it can be rolled back, and is pending.
insert into goose_db_version (id, version_id, is_applied)
select max(id) + 1, 15, false from goose_db_version having count(*) filter (where version_id = 15) = 0;

-- One check in the place of six.
alter table connections drop constraint if exists connections_whole;
alter table connections add constraint connections_whole check (is_connection(version, state, refresh_generation, refresh_hash)) not valid;

-- An actor can be a person at a command line, cli:NAME, or a partner's engineer, partner:NAME.
alter table audit_log drop constraint if exists audit_log_actor;
alter table audit_log add constraint audit_log_actor check (actor ~ '^((cli|partner):)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$') not valid;

-- Events for the operator have types of their own, and more reasons.
alter table webhook_events drop constraint if exists webhook_events_message;
alter table webhook_events add constraint webhook_events_message check (
    (client_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff') = (about_client_id is not null) and case type
        when 'connection.revoked' then about_client_id is null and num_nonnulls(datasets, first_date, last_date) = 0 and reason is not null
            and reason in ('refresh_token_revoked', 'refresh_token_replayed', 'client_disconnected', 'user_disconnected', 'account_deleted')
        when 'activity.updated' then about_client_id is null and reason is null and num_nonnulls(datasets, first_date, last_date) = 3
            and first_date <= last_date
        when 'connection.ended' then about_client_id is not null and num_nonnulls(datasets, first_date, last_date) = 0 and reason is not null
            and reason in ('refresh_token_revoked', 'refresh_token_replayed', 'client_disconnected', 'user_disconnected', 'account_deleted',
                'lapsed', 'client_offboarded', 'operator_disconnected', 'operator_revoked')
        when 'connection.authorized' then about_client_id is not null and reason is null and datasets is not null
            and num_nonnulls(first_date, last_date) = 0
        else false end) not valid;

-- +goose Down

update goose_db_version set is_applied = false where version_id = 15;
alter table webhook_events drop constraint if exists webhook_events_message;

alter table audit_log drop constraint if exists audit_log_actor;
alter table connections drop constraint if exists connections_whole;
