-- +goose Up

-- The user's decision (allow, deny or disconnect), the version of the connection that it was about, and the end of the code of an Allow: the
-- same decision has the same result again. Null: nobody has decided, or a server of before this migration has stored the decision.
alter table authorization_requests
    add column decision text,
    add column decided_version bigint,
    add column code_expires_at timestamptz;

-- +goose Down

alter table authorization_requests drop column decision, drop column decided_version, drop column code_expires_at;
