-- +goose Up

-- connections_whole takes the place of the six checks of 0003. The table is not read under this lock: 0016 validates what the six have
-- checked. Each change is a statement of its own, as Citus requires.
alter table connections add constraint connections_whole check (is_connection(version, state, refresh_generation, refresh_hash)) not valid;
alter table connections drop constraint connections_version_check;
alter table connections drop constraint connections_state_check;
alter table connections drop constraint connections_refresh_generation_check;
alter table connections drop constraint connections_refresh_hash_check;
alter table connections drop constraint connections_refresh_token;
alter table connections drop constraint connections_consented;

-- +goose Down

alter table connections add constraint connections_version_check check (version >= 0) not valid;
alter table connections validate constraint connections_version_check;
alter table connections add constraint connections_state_check check (state in ('authorized', 'revoked', 'disconnected')) not valid;
alter table connections validate constraint connections_state_check;
alter table connections add constraint connections_refresh_generation_check check (refresh_generation >= 0) not valid;
alter table connections validate constraint connections_refresh_generation_check;
alter table connections add constraint connections_refresh_hash_check check (octet_length(refresh_hash) = 32) not valid;
alter table connections validate constraint connections_refresh_hash_check;
alter table connections add constraint connections_refresh_token check ((state = 'authorized') = (refresh_hash is not null)) not valid;
alter table connections validate constraint connections_refresh_token;
alter table connections add constraint connections_consented check (version > 0 or state = 'disconnected') not valid;
alter table connections validate constraint connections_consented;
alter table connections drop constraint connections_whole;
