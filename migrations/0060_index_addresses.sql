-- +goose NO TRANSACTION
-- +goose Up

-- Sign-ins by address, and the few addresses that are not ASCII, whose keys a program of before 0045 wrote. No statement folds texts any more.
set lock_timeout = 0;
drop index concurrently if exists sign_ins_address;
create index concurrently sign_ins_address on sign_ins (address);
drop index concurrently if exists user_addresses_not_ascii;
create index concurrently user_addresses_not_ascii on user_addresses (address) where address || email ~ '[^\x01-\x7f]';
drop index concurrently if exists sign_ins_email;
drop index concurrently if exists clients_name;
reset lock_timeout;

-- +goose Down

set lock_timeout = 0;
drop index concurrently if exists clients_name;
create index concurrently clients_name on clients (lower(name) collate "C");
drop index concurrently if exists sign_ins_email;
create index concurrently sign_ins_email on sign_ins (lower(email) collate "C");
drop index concurrently if exists user_addresses_not_ascii;
drop index concurrently if exists sign_ins_address;
reset lock_timeout;
