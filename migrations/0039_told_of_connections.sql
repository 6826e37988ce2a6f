-- +goose Up

alter table connections
    -- In which the user last allowed it, in words; empty: unknown.
    add column browser text not null default '',
    -- The user has been told that the connection has lapsed.
    add column lapse_told boolean not null default false;

-- +goose Down

alter table connections drop column browser, drop column lapse_told;
