-- +goose Up

-- From here on programs decide which addresses are the same, and write the key of each: the database's lower() depends on its locale. For
-- addresses in ASCII the key is what it was, except in Turkish and Azerbaijani locales. A starting server gives the other rows their keys.
alter table user_addresses drop constraint user_addresses_check;

-- +goose Down

-- Programs before this migration find an address by what lower() makes of it. An address that would then be another user's keeps its key:
-- the constraint is not valid then, so that such rows may stay.
update user_addresses
set address = former.address
from (
    select distinct on (lower(email)) address as key, lower(email) as address from user_addresses
    where address <> lower(email)
    order by lower(email), address
) as former
where user_addresses.address = former.key and not exists (select from user_addresses other where other.address = former.address);
alter table user_addresses add constraint user_addresses_check check (address = lower(email)) not valid;
-- +goose StatementBegin
do $$ begin
    if not exists (select from user_addresses where address <> lower(email)) then
        alter table user_addresses validate constraint user_addresses_check;
    end if;
end $$;
-- +goose StatementEnd
