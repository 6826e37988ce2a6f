-- +goose NO TRANSACTION
-- +goose Up

-- Sign-ins by address; and the few addresses that a program of before 0045 may have stored otherwise: with another key, as they are not ASCII, or
-- though their domain is not the name of a host. No statement folds texts any more.
set lock_timeout = 0;
drop index concurrently if exists sign_ins_address;
create index concurrently sign_ins_address on sign_ins (address);
drop index concurrently if exists user_addresses_unusual;
create index concurrently user_addresses_unusual on user_addresses (address) where address || email ~ '[^\x01-\x7f]' or address !~ '^[^@]+@([a-z0-9]+(-[a-z0-9]+)*\.)*[a-z]+$';
drop index concurrently if exists sign_ins_email;
drop index concurrently if exists clients_name;
reset lock_timeout;

-- +goose Down

set lock_timeout = 0;
drop index concurrently if exists clients_name;
create index concurrently clients_name on clients (lower(name) collate "C");
drop index concurrently if exists sign_ins_email;
create index concurrently sign_ins_email on sign_ins (lower(email) collate "C");
drop index concurrently if exists user_addresses_unusual;
drop index concurrently if exists sign_ins_address;
reset lock_timeout;
