-- +goose NO TRANSACTION
-- +goose Up

-- The new checks of 0015 hold for all rows, as the former ones did, and the former ones go. To find that out PostgreSQL reads the three tables from
-- beginning to end, while everybody reads and writes them. Then it locks one table after the other, each for a moment. Each change is a
-- statement of its own, as Citus requires.

-- Until all of it has been done, it can be rolled back, and is pending.
insert into goose_db_version (id, version_id, is_applied)
select max(id) + 1, 16, false from goose_db_version having count(*) filter (where version_id = 16) = 0;

alter table connections validate constraint connections_whole;
alter table audit_log validate constraint audit_log_actor;
alter table webhook_events validate constraint webhook_events_message;
alter table connections drop constraint if exists connections_version_check;
alter table connections drop constraint if exists connections_state_check;
alter table connections drop constraint if exists connections_refresh_generation_check;
alter table connections drop constraint if exists connections_refresh_hash_check;
alter table connections drop constraint if exists connections_refresh_token;
alter table connections drop constraint if exists connections_consented;
alter table audit_log drop constraint if exists audit_log_actor_check;
alter table webhook_events drop constraint if exists webhook_events_content;
alter table webhook_events drop constraint if exists webhook_events_reason_check;

-- From here on programs decide which addresses are the same, and write the key of each: the database's lower() depends on its locale. For
-- addresses in ASCII the key is what it was, except in Turkish and Azerbaijani locales. A starting server gives the other rows their keys.
alter table user_addresses drop constraint if exists user_addresses_check;

-- +goose Down

update goose_db_version set is_applied = false where version_id = 16;
-- Programs of 1.0.0 know no events for the operator.
delete from webhook_events where client_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
delete from webhook_endpoints where client_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
alter table webhook_events drop constraint if exists webhook_events_reason_check;
alter table webhook_events add constraint webhook_events_reason_check check (reason in ('refresh_token_revoked', 'refresh_token_replayed',
    'client_disconnected', 'user_disconnected', 'account_deleted')) not valid;
alter table webhook_events validate constraint webhook_events_reason_check;
alter table webhook_events drop constraint if exists webhook_events_content;
alter table webhook_events add constraint webhook_events_content check (case type
    when 'connection.revoked' then reason is not null and num_nonnulls(datasets, first_date, last_date) = 0
    when 'activity.updated' then reason is null and num_nonnulls(datasets, first_date, last_date) = 3 and first_date <= last_date
    else false end) not valid;
alter table webhook_events validate constraint webhook_events_content;


-- Programs of 1.0.0 find an address by what lower() makes of it. An address that would then be another user's keeps its key: the constraint is
-- not valid then, so that such rows may stay.
update user_addresses
set address = former.address
from (
    select distinct on (lower(email)) address as key, lower(email) as address from user_addresses
    where address <> lower(email)
    order by lower(email), address
) as former
where user_addresses.address = former.key and not exists (select from user_addresses other where other.address = former.address);
alter table user_addresses drop constraint if exists user_addresses_check;
alter table user_addresses add constraint user_addresses_check check (address = lower(email)) not valid;
-- +goose StatementBegin
do $$ begin
    if not exists (select from user_addresses where address <> lower(email)) then
        alter table user_addresses validate constraint user_addresses_check;
    end if;
end $$;
-- +goose StatementEnd
-- Programs of 1.0.0 replay no entry of the log whose scopes are a number. Citus takes no function here that makes JSON of a value.
update audit_log set detail = jsonb_set(detail, '{scopes}', ('"' || scope_text((detail ->> 'scopes')::smallint) || '"')::jsonb)
where jsonb_typeof(detail -> 'scopes') = 'number';
update audit_log set actor = regexp_replace(actor, '^[a-z]+:', '') where actor like '%:%';
alter table audit_log drop constraint if exists audit_log_actor_check;
alter table audit_log add constraint audit_log_actor_check check (actor ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$') not valid;
alter table audit_log validate constraint audit_log_actor_check;
alter table connections drop constraint if exists connections_version_check;
alter table connections add constraint connections_version_check check (version >= 0) not valid;
alter table connections validate constraint connections_version_check;
alter table connections drop constraint if exists connections_state_check;
alter table connections add constraint connections_state_check check (state in ('authorized', 'revoked', 'disconnected')) not valid;
alter table connections validate constraint connections_state_check;
alter table connections drop constraint if exists connections_refresh_generation_check;
alter table connections add constraint connections_refresh_generation_check check (refresh_generation >= 0) not valid;
alter table connections validate constraint connections_refresh_generation_check;
alter table connections drop constraint if exists connections_refresh_hash_check;
alter table connections add constraint connections_refresh_hash_check check (octet_length(refresh_hash) = 32) not valid;
alter table connections validate constraint connections_refresh_hash_check;
alter table connections drop constraint if exists connections_refresh_token;
alter table connections add constraint connections_refresh_token check ((state = 'authorized') = (refresh_hash is not null)) not valid;
alter table connections validate constraint connections_refresh_token;
alter table connections drop constraint if exists connections_consented;
alter table connections add constraint connections_consented check (version > 0 or state = 'disconnected') not valid;
alter table connections validate constraint connections_consented;
